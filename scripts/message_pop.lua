-- Pops the available messages of a queue that are next, fewer than wanted where their records would be too large for one answer:
-- delivers and deletes them in one step. A message that was delivered as often as the queue allows goes to the queue's dead letters
-- instead.
--
-- ARGV  1 the maximum number of messages
-- Returns {'due'} when something is due, with nothing popped; {'moved', number of dead letters to forward} when all
--       messages that were next became dead letters, so that there may be others behind them; otherwise {'popped', that number, now, the queue's epoch, the
--       messages' shards in a fair queue, then entry, record, ...}.
assert(#ARGV == 1, 'message_pop: 1 argument')
local limit = tonumber(ARGV[1])

if load_queue() then
  return {'due'}
end
local rules = policy()
local live, live_positions, has_moved_all = next_to_deliver(limit, {}, rules)
local waiting = waiting_dead_letters(rules)
if has_moved_all then
  note_turns()
  return {'moved', waiting}
end
local popped = {'popped', waiting, decimal(now), redis.call('HGET', queue, 'e') or '', table.concat(live_positions)}
if #live > 0 then
  local records = redis.call('HMGET', messages, unpack(keys_of(live)))
  for i, entry in ipairs(live) do
    if records[i] then
      popped[#popped + 1], popped[#popped + 2] = entry, records[i]
    end
  end
  remove(ready, live)
  note_turns()
  forget_empty_blocks(#live)
end
return popped
