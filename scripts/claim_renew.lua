-- Let a live claim run anew, with all messages that it still holds.
--
-- KEYS  the queue's
-- ARGV  1 the claim's id    2 its ttl from now on (s)    3 its grace (s)
-- Returns {'again'} when it was busy settling; {'none'} when it is not live; else {'done'}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 3, 'claim_renew: the keys of the queue, 3 arguments')
local id, ttl, grace = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if settle() then
  return {'again'}
end
local known, _, keys = claim_of(id)
if not known then
  return {'none'}
end
-- Frees before anything grows, so that a claim can be renewed when the store is full.
redis.call('ZREM', leases, id)
local held_keys, held_by = still_held(id, keys)
hold_for(held_keys, held_by, id, ttl, grace)
keep_claim(id, ttl, held_keys)
tell(0)
return {'done'}
