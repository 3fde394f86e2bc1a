-- Makes a pop final: deletes its messages, if they have not returned to the queue.
--
-- ARGV  1 id of the pop    2 'repeated' if the pop was sent more than once, so that it may arrive again;
--       else empty
-- Returns 'done'.
assert(#ARGV == 2, 'pop_complete: 2 arguments')
local id, is_repeated = ARGV[1], ARGV[2] == 'repeated'

load_queue()
local _, _, pop_entries = read_claim(id)
local popped = pop_entries and still_in_flight(pop_entries) or {}
if #popped > 0 then
  remove_messages(call.in_flight, popped)
  remove_empty_blocks(#popped)
end
redis.call('ZREM', call.leases, id)
redis.call('HDEL', call.claims, id)
if is_repeated and call.revision then
  store_ended(id)
end
return 'done'
