-- Lists subscriptions in the order of their ids, with their progress. There are fewer than the maximum if
-- they would be too large for one reply.
--
-- ARGV  1 id after which the list starts, or empty    2 maximum number of subscriptions
-- Returns {'due'} if due changes must be applied first; otherwise {'subscriptions', now, total of the
--       feed, until when attempts of a process that has lost the delivery lease may still run (µs) or
--       0, 1 if no subscription follows or 0, then for each subscription its id, its record and its progress}.
assert(#ARGV == 2, 'subscription_list: 2 arguments')
local after, limit = ARGV[1], ARGV[2]

if load_subscriptions() then
  return {'due'}
end
local from = after == '' and '-' or '(' .. after
local found = redis.call('ZRANGEBYLEX', call.subscription_ids, from, '+', 'LIMIT', 0, limit)
local ids, fields, bytes = {}, {}, 0
for i, id in ipairs(found) do
  bytes = bytes + redis.call('HSTRLEN', call.subscriptions, id)
  if bytes > REPLY_BYTES_MAX and i > 1 then
    break
  end
  ids[i], fields[i] = id, 'p' .. id
end
local is_last = #ids == #found and #found < tonumber(limit)
local records = query_in_chunks('HMGET', call.subscriptions, ids)
local progress = query_in_chunks('HMGET', call.deliveries, fields)
local lost = lost_until(redis.call('HGET', call.deliveries, 'o'))
local reply = {'subscriptions', decimal(call.now), decimal(feed_total()), decimal(lost), is_last and '1' or '0'}
for i, id in ipairs(ids) do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, records[i], progress[i]
end
return reply
