-- Forgets the ends of messages that were deleted before they ended, and ends that a claim has put off.
-- They are looked for once they outnumber the messages, a few chunks at a time, so that `ends` stays in
-- proportion.
local COMPACTED_CHUNKS_MAX = 4
local function compact()
  local noted, walk = unpack(redis.call('HMGET', queue, 'n', 'w'))
  if (tonumber(noted) or 0) <= 2 * redis.call('HLEN', messages) + 4096 then
    return false
  end
  walk = tonumber(walk) or 0
  local chunks = redis.call('ZRANGE', ends, walk, walk + COMPACTED_CHUNKS_MAX - 1, 'WITHSCORES')
  if #chunks == 0 then
    walk = 0
  end
  -- Frees before anything grows, so that this works when the store is full.
  redis.call('HDEL', queue, 'w')
  for i = 1, #chunks, 2 do
    local chunk, second = chunks[i], tonumber(chunks[i + 1])
    local keys = keys_of(string.sub(chunk, CHUNK_HEAD_BYTES + 1))
    local places = {}
    for _, set in ipairs({ready, held, delayed}) do
      places[#places + 1] = redis.call('ZMSCORE', set, unpack(keys))
    end
    local kept, forgotten = {}, 0
    for place, hold in ipairs(redis.call('HMGET', holds, unpack(keys))) do
      local is_there = places[1][place] or places[2][place] or places[3][place]
      if is_there and not (hold and read_hold(hold).second > second) then
        kept[#kept + 1] = keys[place]
      else
        forgotten = forgotten + 1
      end
    end
    if forgotten > 0 then
      redis.call('ZREM', ends, chunk)
      redis.call('HINCRBY', queue, 'n', -forgotten)
      if #kept > 0 then
        redis.call('ZADD', ends, second, chunk_head(second) .. table.concat(kept))
      end
    end
    if #kept > 0 then
      walk = walk + 1
    end
  end
  redis.call('HSET', queue, 'w', walk)
  return true
end

