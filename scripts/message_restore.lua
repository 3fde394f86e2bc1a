-- Restores popped messages that did not reach their client, unchanged and at their old positions,
-- unless the queue was deleted or purged since. They count as posted again, because they counted as
-- deleted when they were popped.
--
-- ARGV  1 name by which a repeated call recognizes itself    2 how long that name is kept (s)    3
--       the queue's epoch at the pop
--       then for each message: its entry, its record, its shard or empty
-- Returns 'gone' if the queue was deleted or purged; 'repeated' if the messages were restored
-- before; otherwise 'restored'.
assert(#ARGV >= 6 and #ARGV % 3 == 0, 'message_restore: 3 arguments and threes')
local name, lifetime_s, epoch = ARGV[1], tonumber(ARGV[2]), ARGV[3]

load_queue()
if redis.call('HGET', queue, 'e') ~= epoch then
  return 'gone'
elseif redis.call('HEXISTS', idempotency, name) == 1 then
  return 'repeated'
end
store_outcome(name, '', lifetime_s)
local fair = fairness()
local entries, known_shards, blocks, fields, lowest = {}, {}, {}, {}, math.huge
for i = 4, #ARGV, 3 do
  local entry, index = ARGV[i], #entries + 1
  local rank = rank_of(entry)
  entries[index] = entry
  lowest = math.min(lowest, rank)
  fields[2 * index - 1], fields[2 * index] = key_of(entry), ARGV[i + 1]
  known_shards[index] = fair and ARGV[i + 2] ~= '' and rank > fair.boundary and ARGV[i + 2]
  local block = block_of(rank)
  blocks[block] = math.min(blocks[block] or math.huge, current_end_s(entry))
end
redis.call('HSET', messages, unpack(fields))
redis.call('ZADD', ready, unpack(by_rank(entries)))
if fair then
  put_into_shards(keys_of(entries), AVAILABLE, known_shards)
end
redis.call('HSET', queue, 'c', struct.pack(FEED_STATE, last_visible, posted_total + #entries))
note_expirations(blocks)
notify(#entries, lowest)
return 'restored'
