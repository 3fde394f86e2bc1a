-- Logical time, by which delayed messages are due. While any message is delayed, the queue stores
-- an offset and the last logical time. Logical time is the clock plus the offset, and never goes
-- back.
--
-- When a delayed message is stored, logical time is ahead of every visible rank. So the rank of a
-- delayed message (logical time plus delay) is after the visible feed, and a step of the clock
-- never makes the message late. storage/embedded/rows/state.rs has the same rule.
local logical

-- Loads logical time, if any message of the queue is delayed.
local function load_logical_time()
  logical = nil
  if logical_packed then
    local offset, last = struct.unpack(LOGICAL_TIME, logical_packed)
    offset = math.max(offset, last - now)
    logical = {offset = offset, time = now + offset}
  end
end

-- Raises logical time to at least this rank.
local function raise_logical_time(rank)
  logical = logical or {offset = 0, time = now}
  if logical.time < rank then
    logical = {offset = rank - now, time = rank}
  end
end

local function store_logical_time()
  redis.call('HSET', queue, 'l', struct.pack(LOGICAL_TIME, logical.offset, logical.time))
end

local function clear_logical_time()
  logical = nil
  redis.call('HDEL', queue, 'l')
end

-- Makes delayed messages with ranks up to this one available, at most RELEASED_MAX of them. Returns
-- whether there may be more.
local function release_delayed(rank)
  local released = redis.call('ZRANGEBYSCORE', delayed, '-inf', decimal(rank), 'LIMIT', 0, RELEASED_MAX)
  if #released > 0 then
    redis.call('ZREM', delayed, unpack(released))
    redis.call('ZADD', ready, unpack(by_rank(released)))
    last_visible = math.max(last_visible, rank_of(released[#released]))
    redis.call('HSET', queue, 'c', struct.pack(FEED_STATE, last_visible, posted_total))
    if fairness() then
      put_into_shards(keys_of(released), AVAILABLE, shards_of(keys_of(released)))
    end
    notify(#released)
  end
  return #released == RELEASED_MAX
end
