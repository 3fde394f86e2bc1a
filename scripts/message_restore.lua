-- Returns messages of a pop that is not final to the queue: unchanged, and at their old positions.
--
-- ARGV  1 id of the pop
--       then the keys of the messages
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, also if the pop has ended.
assert(#ARGV >= 2, 'message_restore: 2 arguments or more')
if load_queue() then
  return {'due'}
end
local entries = entries_under({[ARGV[1]] = true}, {unpack(ARGV, 2)})
withdraw(entries)
leave_leases(entries)
return {'done'}
