-- Takes the next available messages of a queue, which pop_complete.lua deletes. Until then, they are under a
-- claim that is not listed. If it ends before that, they return to the queue.
--
-- A message that has been delivered as often as the queue allows moves to the queue's dead letters
-- instead. The script pops fewer messages than requested if their records are too large for one
-- reply.
--
-- ARGV  1 maximum number of messages    2 id of the pop, which identifies a retry of this call
-- Returns {'due'}, with nothing popped, if due changes must be applied first. Otherwise returns one
--       of these; the number is that of the dead letters to forward:
--   {'paused', 0} if the queue is paused;
--   {'moved', number, 1 if they come to the end of this queue, else 0} if all the next messages became
--   dead letters, so that others may follow them;
--   {'popped', number, now, then for each message its entry before the pop and its record}.
assert(#ARGV == 2, 'message_pop: 2 arguments')
local limit, id = tonumber(ARGV[1]), ARGV[2]

local is_due, is_paused = load_queue('z')
local deliverable, outbox_length = {}, 0
if is_due then
  return {'due'}
elseif redis.call('HEXISTS', call.claims, id) == 1 then
  local pop = read_claim(id)
  for i, entry in ipairs(pop and held_entries(id, pop) or {}) do
    deliverable[i] = entry_before_claim(entry)
  end
elseif is_paused then
  return {'paused', 0}
else
  local policy = read_policy()
  local positions, all_moved
  deliverable, positions, all_moved = next_deliverable(limit, {}, policy)
  outbox_length = outbox_length_of(policy)
  if all_moved then
    record_turns()
    return {'moved', outbox_length, is_own_dead_letter_queue(policy)}
  elseif #deliverable > 0 then
    local claimed = claimed_entries(deliverable, id, UNLISTED_LEASE_S, 0, 0)
    put_in_flight(deliverable, claimed, positions)
    store_claim(id, UNLISTED_LEASE_S, claimed, NO_FENCE, '')
  end
end
local reply = {'popped', outbox_length, decimal(call.now)}
if #deliverable > 0 then
  local records = redis.call('HMGET', call.messages, unpack(keys_of(deliverable)))
  for i, entry in ipairs(deliverable) do
    if records[i] then
      reply[#reply + 1], reply[#reply + 2] = entry, records[i]
    end
  end
end
return reply
