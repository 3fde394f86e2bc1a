-- Restarts the term of a live claim, for all messages that it still holds.
--
-- ARGV  1 claim id    2 ttl from now on (s)    3 grace (s)
-- Returns {'due'} if due changes must be applied first; {'none'} if the claim is not live;
--       otherwise {'done', the claim's fence}.
assert(#ARGV == 3, 'claim_renew: 3 arguments')
local id, ttl, grace = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if load_queue() then
  return {'due'}
end
local claim = read_claim(id)
if not claim then
  return {'none'}
end
-- Frees memory before anything grows, so that a claim can be renewed when the store is full.
redis.call('ZREM', call.leases, id)
local entries_left = held_entries(id, claim)
local renewed = claimed_entries(entries_left, id, ttl, grace, 0)
if #entries_left > 0 then
  call_in_chunks('ZREM', call.in_flight, entries_left)
  call_in_chunks('ZADD', call.in_flight, by_rank(renewed))
end
store_claim(id, ttl, renewed, claim.fence, claim.client)
notify(0)
return {'done', decimal(claim.fence)}
