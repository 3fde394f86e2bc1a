-- Removes the messages with these entries from `set`, with their records and their keys in shards.
local function remove_messages(set, entries)
  if #entries == 0 then
    return
  end
  local keys = keys_of(entries)
  call_in_chunks('ZREM', set, entries)
  call_in_chunks('HDEL', call.messages, keys)
  if fairness() then
    call_in_chunks('ZREM', call.shards, keys)
  end
  -- Comes last, because a full store refuses it unless the script has written before.
  if call.stored_bytes then
    add_bytes(-bytes_of(entries))
  end
end

-- Removes blocks of expirations that deletions have left without a message, if there are too many
-- of them. Then at least half of all blocks are empty, so checking a random sample in proportion to
-- the deleted messages keeps their number bounded.
local function remove_empty_blocks(deleted)
  local left = redis.call('HLEN', call.messages)
  if left == 0 then
    redis.call('DEL', call.expirations)
    -- Corrects a sum that processes of an earlier release have not changed.
    if call.stored_bytes and call.stored_bytes ~= 0 then
      redis.call('HDEL', call.queue, 'b')
    end
  elseif redis.call('ZCARD', call.expirations) > 2 * left + SPARE_BLOCKS then
    local sample = math.min(2 * deleted + 2, SAMPLED_BLOCKS_MAX)
    local empty = {}
    for _, block in ipairs(redis.call('ZRANDMEMBER', call.expirations, sample)) do
      local first, last = decimal(block * BLOCK_US), decimal((block + 1) * BLOCK_US - 1)
      local found = 0
      for _, set in ipairs({call.ready, call.in_flight, call.delayed}) do
        found = found + redis.call('ZCOUNT', set, first, last)
      end
      if found == 0 then
        empty[#empty + 1] = block
      end
    end
    if #empty > 0 then
      redis.call('ZREM', call.expirations, unpack(empty))
    end
  end
end
