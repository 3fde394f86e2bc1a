-- Shows a live claim with the messages that it still holds.
--
-- ARGV  1 the claim's id
-- Returns {'due'} when something is due; {'none', 0}; or {'claim', 0, now, ttl, since, '', entries ...}.
assert(#ARGV == 1, 'claim_get: 1 argument')

if load_queue() then
  return {'due'}
end
local ttl, since, entries = read_claim(ARGV[1])
if not ttl then
  return {'none', 0}
end
return show_claim(0, ttl, since, '', still_in_flight(entries))
