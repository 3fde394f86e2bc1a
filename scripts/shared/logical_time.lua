-- Logical time, by which delayed messages are due. While anything is delayed, the queue keeps an offset and the last logical
-- time: logical time is the clock plus the offset, and never goes back. It is ahead of every rank that is visible when a
-- delayed message is stored, so the rank of a delayed message (logical time plus delay) is behind the visible feed, and the
-- message is late by no step of the clock. storage/embedded/logical_time.rs has the same rule.
local logical

-- Reads logical time, if anything is delayed in the queue.
local function load_logical_time()
  logical = nil
  if logical_packed then
    local offset, last = struct.unpack(LOGICAL_TIME, logical_packed)
    offset = math.max(offset, last - now)
    logical = {offset = offset, time = now + offset}
  end
end

-- Raises logical time to this rank at least.
local function raise_logical_time(rank)
  logical = logical or {offset = 0, time = now}
  if logical.time < rank then
    logical = {offset = rank - now, time = rank}
  end
end

local function keep_logical_time()
  redis.call('HSET', queue, 'l', struct.pack(LOGICAL_TIME, logical.offset, logical.time))
end

local function forget_logical_time()
  logical = nil
  redis.call('HDEL', queue, 'l')
end

-- Makes delayed messages with ranks up to this one available, some hundreds at most. Returns whether there may be more.
local function release_delayed(rank)
  local released = redis.call('ZRANGEBYSCORE', delayed, '-inf', decimal(rank), 'LIMIT', 0, RELEASED_MAX)
  if #released > 0 then
    redis.call('ZREM', delayed, unpack(released))
    redis.call('ZADD', ready, unpack(by_rank(released)))
    last_visible = math.max(last_visible, rank_of(released[#released]))
    redis.call('HSET', queue, 'c', decimal(last_visible))
    if fairness() then
      put_into_shards(keys_of(released), FREE, shards_of(keys_of(released)))
    end
    notify(#released)
  end
  return #released == RELEASED_MAX
end
