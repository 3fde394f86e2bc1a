-- Returns messages of a pop that is not final to the queue: unchanged, and at their old positions.
--
-- ARGV  1 id of the pop
--       then the keys of the messages
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, also if the pop has ended.
assert(#ARGV >= 2, 'message_restore: 2 arguments or more')
if load_queue() then
  return {'due'}
end
local _, _, claimed = read_claim(ARGV[1])
local chosen, is_wanted = {}, {}
for i = 2, #ARGV do
  is_wanted[ARGV[i]] = true
end
for _, entry in ipairs(claimed or {}) do
  if is_wanted[key_of(entry)] then
    chosen[#chosen + 1] = entry
  end
end
withdraw(still_in_flight(chosen))
return {'done'}
