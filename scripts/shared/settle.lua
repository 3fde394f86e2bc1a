-- Releases claims that are over, lets in what is due and removes messages that have ended, some hundreds at
-- most; true if there may be more of them. What frees comes before what grows, so that it works in a
-- full store.
local SETTLED_LEASES_MAX = 100
local SETTLED_MESSAGES_MAX = 500
local SETTLED_CHUNKS_MAX = 16

local function remove(keys)
  if #keys > 0 then
    redis.call('HDEL', messages, unpack(keys))
    redis.call('ZREM', ready, unpack(keys))
    redis.call('ZREM', delayed, unpack(keys))
    redis.call('ZREM', held, unpack(keys))
    redis.call('HDEL', holds, unpack(keys))
    if fairness() then
      redis.call('ZREM', shards, unpack(keys))
    end
  end
end

-- Lets in delayed messages that are due; true if there may be more. A rank that the counter has passed was
-- due once, whatever the clock says now, and what has a higher one may have been seen.
local function let_in()
  if redis.call('EXISTS', delayed) == 0 then
    return false
  end
  local last = last_rank()
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', math.max(now, last), 'LIMIT', 0, SETTLED_MESSAGES_MAX)
  if #due > 0 then
    move(due, delayed, ready)
    redis.call('SET', counter, decimal(math.max(last, rank_of(due[#due]))))
    tell(#due)
  end
  return #due == SETTLED_MESSAGES_MAX
end

local function settle()
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, SETTLED_LEASES_MAX)
  local released = 0
  for _, lease in ipairs(over) do
    released = released + release(lease)
    if released >= SETTLED_MESSAGES_MAX then
      return true
    end
  end
  local now_s = math.floor(now / 1000000)
  local due = redis.call('ZRANGEBYSCORE', ends, '-inf', now_s, 'LIMIT', 0, SETTLED_CHUNKS_MAX)
  for _, chunk in ipairs(due) do
    local keys, ended = keys_of(string.sub(chunk, CHUNK_HEAD_BYTES + 1)), {}
    for i, hold in ipairs(redis.call('HMGET', holds, unpack(keys))) do
      -- A claim may have prolonged the message's life; then its later end is noted too.
      if not hold or read_hold(hold).second <= now_s then
        ended[#ended + 1] = keys[i]
      end
    end
    remove(ended)
    redis.call('ZREM', ends, chunk)
    redis.call('HINCRBY', queue, 'n', -#keys)
  end
  local more_let_in = let_in()
  return more_let_in or #over == SETTLED_LEASES_MAX or #due == SETTLED_CHUNKS_MAX
end

