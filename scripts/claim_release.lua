-- Ends a claim: the messages that it still holds become available again at their old positions.
--
-- ARGV  1 claim id    2 'withdrawn' if the client never received the claim, whose messages return to
--       their state before it; 'forgotten' if the same id is used again; else empty
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, also if the claim is
--       not live.
assert(#ARGV == 2, 'claim_release: 2 arguments')
local id, is_withdrawn, is_forgotten = ARGV[1], ARGV[2] == 'withdrawn', ARGV[2] == 'forgotten'

if load_queue() then
  return {'due'}
end
local claim = read_claim(id)
remove_claims({id})
local entries_left = claim and held_entries(id, claim) or {}
if is_withdrawn then
  withdraw(entries_left)
else
  return_to_ready(entries_left, released_entry)
end
if call.revision and (is_withdrawn or claim and not is_forgotten) then
  store_ended(id)
end
return {'done'}
