-- Returns messages of a redrive to their queue, because their new queue does not exist any more.
-- They cannot arrive in a later queue of that name, because it has another epoch
-- (dead_letter_post.lua). A returned message is at its old position and keeps its id. Its time to
-- live starts anew. If the queue itself was deleted, nothing is returned to it.
--
-- The redrive skips these messages. If it moves all messages to one queue, it lists them again and
-- fails, because that queue does not exist.
--
-- ARGV  1 number of the first message    2 number of the last one
-- Returns 'returned'.
assert(#ARGV == 2, 'redrive_return: 2 arguments')
local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])

load_queue()
-- A queue that was created again has not moved anything yet.
local is_same_queue = redis.call('HEXISTS', call.queue, 'o') == 1
local entries, records = {}, {}
while true do
  local message = redis.call('LINDEX', call.outbox, 0)
  if not message or struct.unpack('>I8', message) > last then
    break
  end
  redis.call('LPOP', call.outbox)
  local number, count, _, end_s, fresh, length, target_at = struct.unpack(DEAD_LETTER, message)
  -- Earlier messages have arrived.
  if number >= first and is_same_queue then
    entries[#entries + 1] = fresh .. struct.pack(DELIVERY_STATE, count, 0, end_s)
    records[#entries] = string.sub(message, target_at + length)
  end
end
if #entries == 0 then
  return 'returned'
end
restore_messages(entries, records, {})
local task = find_running_task()
-- A new task moves nothing before the messages of the last one have left the outbox.
if task and task.moved >= #entries then
  task.moved = task.moved - #entries
  if #task.tail == task.id_count * KEY_BYTES then
    task.skipped = task.skipped + #entries
  elseif task.id_count > 0 then
    task.cursor = task.cursor - #entries
  else
    task.cursor = math.min(task.cursor, rank_of(entries[1]) - 1)
  end
  store_task(task)
end
return 'returned'
