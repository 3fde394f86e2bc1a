-- Removes messages: their entries in this set, their records, and their places in shards.
local function remove(set, entries)
  if #entries == 0 then
    return
  end
  local keys = keys_of(entries)
  call_with_all('ZREM', set, entries)
  call_with_all('HDEL', messages, keys)
  if fairness() then
    call_with_all('ZREM', shards, keys)
  end
end

-- Forgets blocks of expirations that deletions have left without a message, if they are out of proportion: then at least half of
-- all blocks are empty, so a random sample in proportion to what was deleted keeps their number bounded.
local function forget_empty_blocks(deleted)
  local left = redis.call('HLEN', messages)
  if left == 0 then
    redis.call('DEL', expirations)
  elseif redis.call('ZCARD', expirations) > 2 * left + SPARE_BLOCKS then
    local sample = math.min(2 * deleted + 2, SAMPLED_BLOCKS_MAX)
    local empty = {}
    for _, block in ipairs(redis.call('ZRANDMEMBER', expirations, sample)) do
      local first, last = decimal(block * BLOCK_US), decimal((block + 1) * BLOCK_US - 1)
      local found = 0
      for _, set in ipairs({ready, in_flight, delayed}) do
        found = found + redis.call('ZCOUNT', set, first, last)
      end
      if found == 0 then
        empty[#empty + 1] = block
      end
    end
    if #empty > 0 then
      redis.call('ZREM', expirations, unpack(empty))
    end
  end
end
