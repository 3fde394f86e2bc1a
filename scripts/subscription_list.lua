-- Lists subscriptions in the order of their ids, with their progress. There are fewer than the maximum if
-- they would be too large for one reply.
--
-- ARGV  1 the id at which the list starts, after '[', or after which it starts, after '('; '-' for all
--       2 maximum number of subscriptions
-- Returns {'due'} if due changes must be applied first; otherwise {'subscriptions', now, total of the
--       feed, until when attempts of a process that has lost the delivery lease may still run (µs) or
--       0, 1 if no subscription follows or 0, ids, record of each, progress of each}.
assert(#ARGV == 2, 'subscription_list: 2 arguments')
local from, limit = ARGV[1], tonumber(ARGV[2])

if load_subscriptions() then
  return {'due'}
end
local found = redis.call('ZRANGEBYLEX', call.subscription_ids, from, '+', 'LIMIT', 0, limit)
local ids, fields, bytes = {}, {}, 0
for i, id in ipairs(found) do
  bytes = bytes + redis.call('HSTRLEN', call.subscriptions, id)
  if bytes > REPLY_BYTES_MAX and i > 1 then
    break
  end
  ids[i], fields[i] = id, 'p' .. id
end
return {
  'subscriptions', decimal(call.now), decimal(feed_total()),
  decimal(lost_until(redis.call('HGET', call.deliveries, 'o'))), #ids < limit and #ids == #found and 1 or 0,
  ids, query_in_chunks('HMGET', call.subscriptions, ids), query_in_chunks('HMGET', call.deliveries, fields),
}
