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
local _, _, claim_entries = read_claim(id)
redis.call('ZREM', call.leases, id)
redis.call('HDEL', call.claims, id)
redis.call('ZREM', call.claim_ids, id)
local entries_left = claim_entries and still_in_flight(claim_entries) or {}
if is_withdrawn then
  withdraw(entries_left)
else
  return_to_ready(entries_left, released_entry)
end
if call.revision and (is_withdrawn or claim_entries and not is_forgotten) then
  store_ended(id)
end
return {'done'}
