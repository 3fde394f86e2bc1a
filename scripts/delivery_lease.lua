-- Takes the delivery lease of a queue (shared/deliveries.lua).
--
-- ARGV  1 holder, in 16 bytes
-- Returns {'due'} if due changes must be applied first; {'none'} if another holder has the lease or
--       the queue has no subscriptions; otherwise {'taken', fence, then the state of the feed: now,
--       last visible rank, total, version of the subscriptions, when the first delayed message is
--       due (µs) or 0}.
assert(#ARGV == 1, 'delivery_lease: 1 argument')
local holder = ARGV[1]

if load_subscriptions() then
  return {'due'}
elseif not subscription_count then
  return {'none'}
end
if not read_lease(queue, DELIVERY_LEASE) then
  -- Fences go on after those of an earlier queue of this name (queue_delete.lua).
  store_lease(queue, DELIVERY_LEASE, math.max(now, last_visible), 0, NO_CLAIM)
end
local fence = take_lease(queue, DELIVERY_LEASE, holder, DELIVERY_LEASE_US)
if not fence then
  return {'none'}
end
-- The janitor finds the lease if it expires.
redis.call('ZADD', due, 'LT', decimal(now + DELIVERY_LEASE_US), hash_tag())
return {'taken', decimal(fence), feed_state()}
