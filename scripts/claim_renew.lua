-- Restarts a live claim, with all messages that it still holds.
--
-- ARGV  1 the claim's id    2 its ttl from now on (s)    3 its grace (s)
-- Returns {'due'} when something is due; {'none'} when the claim is not live; otherwise {'done'}.
assert(#ARGV == 3, 'claim_renew: 3 arguments')
local id, ttl, grace = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if load_queue() then
  return {'due'}
end
local known, _, entries = read_claim(id)
if not known then
  return {'none'}
end
-- Frees before anything grows, so that a claim can be renewed when the store is full.
redis.call('ZREM', leases, id)
local held = still_in_flight(entries)
local renewed = under_claim(held, id, ttl, grace, 0)
if #held > 0 then
  call_with_all('ZREM', in_flight, held)
  call_with_all('ZADD', in_flight, by_rank(renewed))
end
keep_claim(id, ttl, renewed)
notify(0)
return {'done'}
