-- Ends a claim: the messages that it still holds become available again at their old positions.
--
-- ARGV  1 claim id    2 'withdrawn' if the client never received the claim, else empty; the
--       messages of a withdrawn claim return to their state before it, and the claim is not created
--       later
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, also if the claim is
--       not live.
assert(#ARGV == 2, 'claim_release: 2 arguments')
local id, is_withdrawn = ARGV[1], ARGV[2] == 'withdrawn'

if load_queue() then
  return {'due'}
end
local _, _, claim_entries = read_claim(id)
redis.call('ZREM', leases, id)
redis.call('HDEL', claims, id)
redis.call('ZREM', claim_ids, id)
local entries_left = claim_entries and still_in_flight(claim_entries) or {}
if not is_withdrawn then
  return_to_ready(entries_left, released_entry)
elseif claim_entries then
  withdraw(entries_left)
elseif revision then
  redis.call('HSET', claims, id, UNDONE)
  redis.call('ZADD', leases, decimal(now + UNDONE_LEASE_US), id)
  schedule_due(now + UNDONE_LEASE_US)
end
return {'done'}
