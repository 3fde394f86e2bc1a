-- Notes that messages end in a second, in the last chunk of that second while it has room.
local CHUNK_BYTES = 32 * KEY_BYTES
local function note_end(second, keys)
  local chunk = table.concat(keys)
  local open = redis.call('ZREVRANGEBYSCORE', ends, second, second, 'LIMIT', 0, 1)[1]
  if open and #open < CHUNK_BYTES then
    redis.call('ZREM', ends, open)
    chunk = open .. chunk
  end
  for from = 1, #chunk, CHUNK_BYTES do
    redis.call('ZADD', ends, second, string.sub(chunk, from, from + CHUNK_BYTES - 1))
  end
  redis.call('HINCRBY', queue, 'n', #keys)
end

