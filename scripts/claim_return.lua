-- Returns one message of a claim to the queue. It is available at once, or after a delay in which
-- no claim gets it.
--
-- ARGV  1 claim id    2 message key    3 delay (s), 0 for none
-- Returns {'due'} if due changes must be applied first; {'none'} if the claim is not live;
--       {'not_held'} if it does not hold the message; or {'done'}.
assert(#ARGV == 3, 'claim_return: 3 arguments')
local id, key, delay = ARGV[1], ARGV[2], tonumber(ARGV[3])

if load_queue() then
  return {'due'}
end
if not read_claim(id) then
  return {'none'}
end
local entry = #key == KEY_BYTES and find_entry(key, {call.in_flight})
if not entry or claim_in(entry) ~= id then
  return {'not_held'}
end
if delay == 0 then
  return_to_ready({entry}, released_entry)
  leave_leases({entry})
  return {'done'}
end
local entry_in_flight = released_entry(entry) .. string.rep('\0', CLAIM_BYTES + DELIVERY_BYTES)
local end_us = call.now + delay * 1000000
-- Frees memory before anything grows, so that this works when the store is full.
redis.call('ZREM', call.in_flight, entry)
redis.call('ZADD', call.in_flight, decimal(rank_of(entry)), entry_in_flight)
redis.call('ZADD', call.leases, decimal(end_us), own_lease_of(entry_in_flight))
leave_leases({entry})
schedule_due(end_us)
notify(0)
return {'done'}
