-- Finds messages by their keys.
--
-- ARGV  message keys
-- Returns {'due'} if due changes must be applied first; otherwise {'found', now, entries ...}.
assert(#ARGV >= 1, 'message_get: 1 argument or more')

if load_queue() then
  return {'due'}
end
local found = {'found', decimal(call.now)}
local entries = find_entries(ARGV, {call.ready, call.in_flight, call.delayed})
for _, key in ipairs(ARGV) do
  found[#found + 1] = entries[key]
end
return found
