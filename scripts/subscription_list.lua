-- Lists subscriptions in the order of their ids.
--
-- ARGV  1 id after which the list starts, or empty    2 maximum number of subscriptions
--       3 'progress' to return their progress too, or empty
-- Returns {'due'} if due changes must be applied first; otherwise {'subscriptions', now, then for
--       each subscription its id, its record and, if requested, its progress}.
assert(#ARGV == 3, 'subscription_list: 3 arguments')
local after, limit, with_progress = ARGV[1], ARGV[2], ARGV[3] == 'progress'

local _, has_expired = load_subscriptions()
if has_expired then
  return {'due'}
end
local from = after == '' and '-' or '(' .. after
local ids = redis.call('ZRANGEBYLEX', subscription_ids, from, '+', 'LIMIT', 0, limit)
local records, progress = query_in_chunks('HMGET', subscriptions, ids), {}
if with_progress then
  local fields = {}
  for i, id in ipairs(ids) do
    fields[i] = 'p' .. id
  end
  progress = query_in_chunks('HMGET', deliveries, fields)
end
local reply = {'subscriptions', decimal(now)}
for i, id in ipairs(ids) do
  reply[#reply + 1], reply[#reply + 2] = id, records[i]
  if with_progress then
    reply[#reply + 1] = progress[i]
  end
end
return reply
