-- Puts messages that have left the queue back at their old positions, in these shards if the queue
-- is fair. They count as posted again, because they counted as deleted when they left.
local function restore_messages(entries, records, last_shards)
  local fair = fairness()
  local known_shards, blocks, fields, lowest = {}, {}, {}, math.huge
  for i, entry in ipairs(entries) do
    local rank = rank_of(entry)
    lowest = math.min(lowest, rank)
    fields[2 * i - 1], fields[2 * i] = key_of(entry), records[i]
    known_shards[i] = fair and rank > fair.boundary and last_shards[i]
    local block = block_of(rank)
    blocks[block] = math.min(blocks[block] or math.huge, current_end_s(entry))
  end
  add_bytes(bytes_of(entries))
  redis.call('HSET', call.messages, unpack(fields))
  redis.call('ZADD', call.ready, unpack(by_rank(entries)))
  if fair then
    put_into_shards(keys_of(entries), AVAILABLE, known_shards)
  end
  redis.call('HSET', call.queue, 'c', struct.pack(FEED_STATE, call.last_visible, call.posted_total + #entries))
  note_expirations(blocks)
  notify(#entries, lowest)
end
