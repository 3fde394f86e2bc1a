-- Returns a subscription with its progress.
--
-- ARGV  1 id
-- Returns {'none'} if it does not exist; otherwise {'subscription', now, record, progress}.
assert(#ARGV == 1, 'subscription_get: 1 argument')
local id = ARGV[1]

if not has_subscription(id) then
  return {'none'}
end
return {
  'subscription', decimal(now), redis.call('HGET', subscriptions, id), redis.call('HGET', deliveries, 'p' .. id),
}
