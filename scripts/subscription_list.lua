-- Lists subscriptions in the order of their ids, with their progress.
--
-- ARGV  1 id after which the list starts, or empty    2 maximum number of subscriptions
-- Returns {'due'} if due changes must be applied first; otherwise {'subscriptions', now, total of the
--       feed, then for each subscription its id, its record and its progress}.
assert(#ARGV == 2, 'subscription_list: 2 arguments')
local after, limit = ARGV[1], ARGV[2]

if load_subscriptions() then
  return {'due'}
end
local from = after == '' and '-' or '(' .. after
local ids = redis.call('ZRANGEBYLEX', subscription_ids, from, '+', 'LIMIT', 0, limit)
local fields = {}
for i, id in ipairs(ids) do
  fields[i] = 'p' .. id
end
local records, progress = query_in_chunks('HMGET', subscriptions, ids), query_in_chunks('HMGET', deliveries, fields)
local reply = {'subscriptions', decimal(now), decimal(feed_total())}
for i, id in ipairs(ids) do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, records[i], progress[i]
end
return reply
