-- Takes the delivery lease of a queue (shared/deliveries.lua).
--
-- ARGV  1 holder, in 16 bytes    2 whether a lease may be taken that its holder has not ended: 1 or 0
-- Returns {'due'} if due changes must be applied first; {'none'} if another holder has the lease or
--       the queue has no subscriptions; otherwise {'taken', fence, then the state of the feed: now,
--       last visible rank, total, version of the subscriptions, when the first delayed message is
--       due (µs) or 0, until when attempts of an earlier holder may still run (µs) or 0}.
assert(#ARGV == 2, 'delivery_lease: 2 arguments')
local holder, may_replace = ARGV[1], ARGV[2] == '1'

if load_subscriptions() then
  return {'due'}
elseif not call.subscription_count then
  return {'none'}
end
if not read_lease(call.queue, DELIVERY_LEASE) then
  -- Fences go on after those of an earlier queue of this name (queue_delete.lua).
  store_lease(call.queue, DELIVERY_LEASE, math.max(call.now, call.last_visible), 0, NO_CLAIM)
end
local _, _, last_holder = read_lease(call.queue, DELIVERY_LEASE)
if last_holder ~= NO_CLAIM and last_holder ~= holder and not may_replace then
  return {'none'}
end
local lost = lost_until(redis.call('HGET', call.deliveries, 'o'), holder)
local fence = take_lease(call.queue, DELIVERY_LEASE, holder, DELIVERY_LEASE_US)
if not fence then
  return {'none'}
end
redis.call('HDEL', call.deliveries, 'o')
if lost > 0 then
  redis.call('HSET', call.deliveries, 'o', decimal(lost))
end
-- The janitor finds the lease if it expires.
redis.call('ZADD', call.due, 'LT', decimal(call.now + DELIVERY_LEASE_US), hash_tag())
return {'taken', decimal(fence), feed_state()}
