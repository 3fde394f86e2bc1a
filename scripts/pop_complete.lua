-- Makes a pop final: deletes its messages, if they have not returned to the queue.
--
-- ARGV  1 id of the pop
-- Returns 'done'.
assert(#ARGV == 1, 'pop_complete: 1 argument')
local id = ARGV[1]

load_queue()
local _, _, pop_entries = read_claim(id)
local popped = pop_entries and still_in_flight(pop_entries) or {}
if #popped > 0 then
  remove_messages(in_flight, popped)
  remove_empty_blocks(#popped)
end
redis.call('ZREM', leases, id)
redis.call('HDEL', claims, id)
return 'done'
