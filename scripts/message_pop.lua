-- Pops the next available messages of a queue: delivers and deletes them in one step.
--
-- A message that has been delivered as often as the queue allows moves to the queue's dead letters
-- instead. The script pops fewer messages than requested if their records are too large for one
-- reply.
--
-- ARGV  1 maximum number of messages
-- Returns {'due'}, with nothing popped, if due changes must be applied first. Otherwise returns one
--       of these; the number is that of the dead letters to forward:
--   {'paused', 0} if the queue is paused;
--   {'moved', number} if all the next messages became dead letters, so that others may follow them;
--   {'popped', number, now, the queue's epoch, shards of the messages in a fair queue, then for
--   each message its entry and record}.
assert(#ARGV == 1, 'message_pop: 1 argument')
local limit = tonumber(ARGV[1])

local is_due, is_paused = load_queue('z')
if is_due then
  return {'due'}
elseif is_paused then
  return {'paused', 0}
end
local policy = read_policy()
local deliverable, positions, all_moved = next_deliverable(limit, {}, policy)
local outbox_length = outbox_length_of(policy)
if all_moved then
  record_turns()
  return {'moved', outbox_length}
end
local reply = {'popped', outbox_length, decimal(now), redis.call('HGET', queue, 'e') or '', table.concat(positions)}
if #deliverable > 0 then
  local records = redis.call('HMGET', messages, unpack(keys_of(deliverable)))
  for i, entry in ipairs(deliverable) do
    if records[i] then
      reply[#reply + 1], reply[#reply + 2] = entry, records[i]
    end
  end
  remove_messages(ready, deliverable)
  record_turns()
  remove_empty_blocks(#deliverable)
end
return reply
