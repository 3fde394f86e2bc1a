-- Restores popped messages that did not reach their client, as they were and at their old positions, unless the queue was deleted
-- or purged since.
--
-- ARGV  1 a name by which a repeated call recognizes itself    2 until when that name is kept (s from now)    3 the epoch of the pop
--       then for each message: its entry, its record, its shard or nothing
-- Returns 'gone' when the queue is another or was purged; 'repeated' when the messages were restored before; else 'restored'.
assert(#ARGV >= 6 and #ARGV % 3 == 0, 'message_restore: 3 arguments and threes')
local name, kept_s, epoch = ARGV[1], tonumber(ARGV[2]), ARGV[3]

load_queue()
if redis.call('HGET', queue, 'e') ~= epoch then
  return 'gone'
elseif redis.call('HEXISTS', idempotency, name) == 1 then
  return 'repeated'
end
keep_outcome(name, '', kept_s)
local divided = fairness()
local entries, known, blocks, fields, lowest = {}, {}, {}, {}, math.huge
for i = 4, #ARGV, 3 do
  local entry, place = ARGV[i], #entries + 1
  local rank = rank_of(entry)
  entries[place] = entry
  lowest = math.min(lowest, rank)
  fields[2 * place - 1], fields[2 * place] = key_of(entry), ARGV[i + 1]
  known[place] = divided and ARGV[i + 2] ~= '' and rank > divided.boundary and ARGV[i + 2]
  local block = block_of(rank)
  blocks[block] = math.min(blocks[block] or math.huge, end_of(entry))
end
redis.call('HSET', messages, unpack(fields))
redis.call('ZADD', ready, unpack(by_rank(entries)))
if divided then
  put_into_shards(keys_of(entries), FREE, known)
end
note_expirations(blocks)
notify(#entries, lowest)
return 'restored'
