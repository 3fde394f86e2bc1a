-- Deletes messages by their keys, and skips keys that do not exist.
--
-- ARGV  1 number of claim ids that follow, one of which must hold each message; empty if no claim
--       is needed
--       then the claim ids, then the message keys
-- Returns {'due'} if due changes must be applied first; {'unclaimed'}, with nothing deleted, if a
--       message is under none of the claims; otherwise {'done', number of messages deleted}.
assert(#ARGV >= 2, 'message_delete_many: 2 arguments or more')
local claim_count = tonumber(ARGV[1])

if load_queue() then
  return {'due'}
end
local allowed = {}
for i = 2, (claim_count or 0) + 1 do
  allowed[ARGV[i]] = true
end
local found, set_of = find_entries({unpack(ARGV, (claim_count or 0) + 2)}, {call.in_flight, call.ready, call.delayed})
local entries_in, count = {[call.in_flight] = {}, [call.ready] = {}, [call.delayed] = {}}, 0
for key, entry in pairs(found) do
  local set = set_of[key]
  if claim_count and not (set == call.in_flight and allowed[claim_in(entry)]) then
    return {'unclaimed'}
  end
  local entries = entries_in[set]
  entries[#entries + 1] = entry
  count = count + 1
end
for set, entries in pairs(entries_in) do
  remove_messages(set, entries)
end
leave_leases(entries_in[call.in_flight])
if count > 0 then
  remove_empty_blocks(count)
end
return {'done', count}
