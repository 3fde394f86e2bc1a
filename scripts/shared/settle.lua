-- Removes messages that have ended, some hundreds at most; true if there may be more of them.
-- What frees comes before what grows, so that it works when the store is full.
local SETTLED_CHUNKS_MAX = 16
local function settle()
  local due = redis.call('ZRANGEBYSCORE', ends, '-inf', math.floor(now / 1000000), 'LIMIT', 0, SETTLED_CHUNKS_MAX)
  for _, chunk in ipairs(due) do
    local keys = keys_of(chunk)
    redis.call('HDEL', messages, unpack(keys))
    redis.call('ZREM', ready, unpack(keys))
    redis.call('ZREM', ends, chunk)
    redis.call('HINCRBY', queue, 'n', -#keys)
  end
  return #due == SETTLED_CHUNKS_MAX
end

