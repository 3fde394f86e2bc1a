-- Deletes one message: a claimed message if its claim is given, an available message if none is.
--
-- ARGV  1 message key    2 claim id, or empty
-- Returns {'due'} if due changes must be applied first; {'done', 1} if the message is deleted, and
--       {'done', 0} if it did not exist. With nothing deleted it also returns:
--   {'claimed'} if the message is claimed and no claim was given;
--   {'unclaimed'} if a claim was given and the message is not claimed;
--   {'claimed_by_other'} if the message is under another claim;
--   {'unknown_claim'} if the given claim is not live.
assert(#ARGV == 2, 'message_delete: 2 arguments')
local key, claim = ARGV[1], ARGV[2]

if load_queue() then
  return {'due'}
end
local entry, set = find_entry(key, {call.in_flight, call.ready, call.delayed})
if not entry then
  return {'done', 0}
end
local holding_claim = set == call.in_flight and claim_in(entry) or NO_CLAIM
if claim == '' and holding_claim ~= NO_CLAIM then
  return {'claimed'}
elseif claim ~= '' and holding_claim == NO_CLAIM then
  return {'unclaimed'}
elseif claim ~= '' and claim ~= holding_claim then
  return {read_claim(claim) and 'claimed_by_other' or 'unknown_claim'}
end
remove_messages(set, {entry})
if set == call.in_flight then
  leave_leases({entry})
end
remove_empty_blocks(1)
return {'done', 1}
