-- Logical time, by which delayed messages are due. While any message is delayed, the queue stores
-- an offset and the last logical time. Logical time is the clock plus the offset, and never goes
-- back.
--
-- When a delayed message is stored, logical time is ahead of every visible rank. So the rank of a
-- delayed message (logical time plus delay) is after the visible feed, and a step of the clock
-- never makes the message late. storage/embedded/rows/state.rs has the same rule.
--
-- `call.logical` has the `offset` and the `time`; nil while no message is delayed.

-- Loads logical time, if any message of the queue is delayed.
local function load_logical_time()
  call.logical = nil
  if call.logical_packed then
    local offset, last = struct.unpack(LOGICAL_TIME, call.logical_packed)
    offset = math.max(offset, last - call.now)
    call.logical = {offset = offset, time = call.now + offset}
  end
end

-- Raises logical time to at least this rank.
local function raise_logical_time(rank)
  call.logical = call.logical or {offset = 0, time = call.now}
  if call.logical.time < rank then
    call.logical = {offset = rank - call.now, time = rank}
  end
end

local function store_logical_time()
  redis.call('HSET', call.queue, 'l', struct.pack(LOGICAL_TIME, call.logical.offset, call.logical.time))
end

local function clear_logical_time()
  call.logical = nil
  redis.call('HDEL', call.queue, 'l')
end

-- Makes delayed messages with ranks up to this one available, at most RELEASED_MAX of them. Returns
-- whether there may be more.
local function release_delayed(rank)
  local released = redis.call('ZRANGEBYSCORE', call.delayed, '-inf', decimal(rank), 'LIMIT', 0, RELEASED_MAX)
  if #released > 0 then
    redis.call('ZREM', call.delayed, unpack(released))
    redis.call('ZADD', call.ready, unpack(by_rank(released)))
    call.last_visible = math.max(call.last_visible, rank_of(released[#released]))
    redis.call('HSET', call.queue, 'c', struct.pack(FEED_STATE, call.last_visible, call.posted_total))
    if fairness() then
      put_into_shards(keys_of(released), AVAILABLE, shards_of(keys_of(released)))
    end
    notify(#released)
  end
  return #released == RELEASED_MAX
end
