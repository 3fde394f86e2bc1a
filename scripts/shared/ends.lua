-- Notes that messages end in a second, in the last chunk of that second while it has room.
local CHUNK_BYTES = CHUNK_HEAD_BYTES + 32 * KEY_BYTES
local function note_end(second, keys)
  local head, rest = chunk_head(second), table.concat(keys)
  local open = redis.call('ZREVRANGEBYSCORE', ends, second, second, 'LIMIT', 0, 1)[1]
  if open and #open < CHUNK_BYTES then
    redis.call('ZREM', ends, open)
    rest = string.sub(open, CHUNK_HEAD_BYTES + 1) .. rest
  end
  local room = CHUNK_BYTES - CHUNK_HEAD_BYTES
  for from = 1, #rest, room do
    redis.call('ZADD', ends, second, head .. string.sub(rest, from, from + room - 1))
  end
  redis.call('HINCRBY', queue, 'n', #keys)
end

