-- Returns a subscription with its progress, and the total of the feed.
--
-- ARGV  1 id
-- Returns {'none'} if it does not exist; {'due'} if due changes must be applied first; otherwise
--       {'subscription', now, record, progress, total of the feed, until when attempts of a process
--       that has lost the delivery lease may still run (µs) or 0}.
assert(#ARGV == 1, 'subscription_get: 1 argument')
local id = ARGV[1]

if not has_subscription(id) then
  return {'none'}
elseif load_queue() then
  return {'due'}
end
return {
  'subscription', decimal(call.now), redis.call('HGET', call.subscriptions, id),
  redis.call('HGET', call.deliveries, 'p' .. id),
  decimal(feed_total()), decimal(lost_until(redis.call('HGET', call.deliveries, 'o'))),
}
