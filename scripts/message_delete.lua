-- Deletes messages by their keys; those that do not exist are passed over.
--
-- ARGV  1 how many claims follow, one of which must hold each message; nothing if no claim is needed
--       then the claims, then the messages' keys
-- Returns {'due'} when something is due; {'unclaimed'}, with nothing deleted, when a message is under none of the claims;
--       otherwise {'done'}.
assert(#ARGV >= 2, 'message_delete: 2 arguments or more')
local claims_given = tonumber(ARGV[1])

if load_queue() then
  return {'due'}
end
local allowed = {}
for i = 2, (claims_given or 0) + 1 do
  allowed[ARGV[i]] = true
end
local found, set_of = find_entries({unpack(ARGV, (claims_given or 0) + 2)}, {in_flight, ready, delayed})
local entries_in, count = {[in_flight] = {}, [ready] = {}, [delayed] = {}}, 0
for key, entry in pairs(found) do
  local set = set_of[key]
  if claims_given and not (set == in_flight and allowed[claim_in(entry)]) then
    return {'unclaimed'}
  end
  table.insert(entries_in[set], entry)
  count = count + 1
end
for set, entries in pairs(entries_in) do
  remove(set, entries)
end
if count > 0 then
  forget_empty_blocks(count)
end
return {'done'}
