-- Returns one message of a claim: it is available at once, or after a delay in which nobody gets it.
--
-- ARGV  1 the claim's id    2 the message's key    3 the delay (s), 0 for none
-- Returns {'due'} when something is due; {'none'} when the claim is not live; otherwise {'done'}, also when the claim does not
--       hold the message.
assert(#ARGV == 3, 'claim_return: 3 arguments')
local id, key, delay = ARGV[1], ARGV[2], tonumber(ARGV[3])

if load_queue() then
  return {'due'}
end
if redis.call('HEXISTS', claims, id) == 0 then
  return {'none'}
end
local entry = #key == KEY_BYTES and find_entry(key, {in_flight})
if not entry or claim_in(entry) ~= id then
  return {'done'}
elseif delay == 0 then
  give_back({entry}, delivered)
  return {'done'}
end
local kept = delivered(entry) .. string.rep('\0', IN_FLIGHT_BYTES - DELIVERED_BYTES)
local stop = now + delay * 1000000
-- Frees before anything grows, so that this works when the store is full.
redis.call('ZREM', in_flight, entry)
redis.call('ZADD', in_flight, decimal(rank_of(entry)), kept)
redis.call('ZADD', leases, decimal(stop), RETURNED .. kept)
note_due(stop)
notify(0)
return {'done'}
