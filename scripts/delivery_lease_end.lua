-- Ends the delivery lease of a queue, unless work is due that its holder has not seen.
--
-- ARGV  1 fence    2 last visible rank that the holder has seen    3 version of the subscriptions
--       that it has seen    4 time (µs) when the next retry is due, or 0
-- Returns {'due'} if due changes must be applied first; {'busy'} if the holder must go on; otherwise
--       {'ended'}, also if the lease has another fence.
assert(#ARGV == 4, 'delivery_lease_end: 4 arguments')
local fence, last, version, next_retry = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

if load_subscriptions() then
  return {'due'}
elseif read_lease(call.queue, DELIVERY_LEASE) ~= fence then
  return {'ended'}
end
local current_version = tonumber(redis.call('HGET', call.deliveries, 'v')) or 0
if call.subscription_count and (call.last_visible > last or current_version ~= version) then
  return {'busy'}
end
-- The next fence keeps a late call of this holder from having an effect.
store_lease(call.queue, DELIVERY_LEASE, fence + 1, 0, NO_CLAIM)
if call.subscription_count then
  redis.call('HSET', call.deliveries, 's', struct.pack(SEEN, last, version, next_retry))
  if next_retry > call.now then
    redis.call('ZADD', call.due, 'LT', decimal(next_retry), hash_tag())
  elseif next_retry > 0 then
    signal_deliveries()
  end
end
return {'ended'}
