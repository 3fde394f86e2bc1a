-- Returns a live claim with the messages that it still holds.
--
-- ARGV  1 claim id
-- Returns {'due'} if due changes must be applied first; {'none', 0} if the claim is not live;
--       otherwise {'claim', 0, now, ttl, since, fence, '', entries ...}.
assert(#ARGV == 1, 'claim_get: 1 argument')

if load_queue() then
  return {'due'}
end
local claim = read_claim(ARGV[1])
if not claim then
  return {'none', 0}
end
return claim_reply(0, claim.ttl, claim.since, claim.fence, '', held_entries(ARGV[1], claim))
