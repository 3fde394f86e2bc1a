-- Which free messages are next: the oldest; in a fair queue one of each shard that has any, in turn.
--
-- The queue keeps the position that was served last, plus one, and how many claims in a row were served as they prefer.
local TURN = '>I2I2'
local PREFERRED_IN_A_ROW_MAX = 8

local function read_turn()
  local packed = redis.call('HGET', queue, 'c')
  if not packed then
    return -1, 0
  end
  local next_turn, passes = struct.unpack(TURN, packed)
  return next_turn - 1, passes
end

-- Some free messages of a position, oldest first, behind so many.
local function free_at(position, passed, count)
  if position < UNSHARDED then
    return redis.call('ZRANGEBYSCORE', shards, position, position, 'LIMIT', passed, count)
  end
  local boundary = decimal(fairness().boundary)
  local keys = redis.call('ZRANGEBYSCORE', ready, '-inf', boundary, 'LIMIT', passed, count)
  if #keys < count then
    local before = redis.call('ZCOUNT', ready, '-inf', boundary)
    local behind = math.max(passed - before, 0)
    for _, key in ipairs(redis.call('ZRANGEBYSCORE', shards, UNSHARDED, UNSHARDED, 'LIMIT', behind, count - #keys)) do
      keys[#keys + 1] = key
    end
  end
  return keys
end

-- The positions that have something free, in the order of their turns behind one, so many at most; and their oldest messages.
local function positions_behind(turn, limit)
  local positions, heads = {}, {}
  local function look(behind, last)
    while #heads < limit do
      local head = redis.call('ZRANGEBYSCORE', shards, '(' .. behind, last, 'WITHSCORES', 'LIMIT', 0, 1)
      if not head[1] then
        return
      end
      behind = head[2]
      positions[#positions + 1], heads[#heads + 1] = tonumber(behind), head[1]
    end
  end
  local function look_at_unsharded()
    local head = #heads < limit and free_at(UNSHARDED, 0, 1)[1]
    if head then
      positions[#positions + 1], heads[#heads + 1] = UNSHARDED, head
    end
  end
  if turn < UNSHARDED then
    look(turn, UNSHARDED - 1)
    look_at_unsharded()
    if turn >= 0 then
      look(-1, turn)
    end
  else
    look(-1, UNSHARDED - 1)
    look_at_unsharded()
  end
  return positions, heads
end

-- Those of some positions that have something free, the longest waiting first; and their oldest messages.
local function positions_among(numbers)
  local position_of_head, heads = {}, {}
  for _, position in ipairs(numbers) do
    local head = free_at(position, 0, 1)[1]
    if head and not position_of_head[head] then
      position_of_head[head], heads[#heads + 1] = position, head
    end
  end
  table.sort(heads, function(one, other) return rank_of(one) < rank_of(other) end)
  local positions = {}
  for i, head in ipairs(heads) do
    positions[i] = position_of_head[head]
  end
  return positions, heads
end

-- What was picked last: each message's position, whether as somebody prefers; and how things stood before.
local position_of, was_preferred, turn_before, passes_before

-- The keys of so many free messages at most, of which each of these positions gives one in turn; they begin with the oldest of each.
local function pick(positions, heads, limit)
  local keys = {}
  position_of = {}
  for i, key in ipairs(heads) do
    if i <= limit then
      keys[i] = key
      position_of[key] = positions[i]
    end
  end
  -- Each position is asked for its part of what is left; those that have given it go on.
  local given = 1
  while #keys < limit and #positions > 0 do
    local part = math.ceil((limit - #keys) / #positions)
    local more, others = {}, {}
    for i, position in ipairs(positions) do
      more[i] = free_at(position, given, part)
      if #more[i] == part then
        others[#others + 1] = position
      end
    end
    for round = 1, part do
      for i, position in ipairs(positions) do
        local key = more[i][round]
        if key and #keys < limit then
          keys[#keys + 1] = key
          position_of[key] = position
        end
      end
    end
    positions, given = others, given + part
  end
  return keys
end

-- The keys of the free messages that are next, so many at most; from some positions of a fair queue if it may be.
local function next_free(limit, preferred)
  if not fairness() then
    return redis.call('ZRANGE', ready, 0, limit - 1)
  elseif redis.call('EXISTS', ready) == 0 then
    return {}
  end
  turn_before, passes_before = read_turn()
  if preferred and passes_before < PREFERRED_IN_A_ROW_MAX then
    local positions, heads = positions_among(preferred)
    if #heads > 0 then
      was_preferred = true
      return pick(positions, heads, limit)
    end
  end
  local positions, heads = positions_behind(turn_before, limit)
  return pick(positions, heads, limit)
end

-- The positions of messages that were picked, in a fair queue.
local function positions_of(keys)
  if not fairness() then
    return nil
  end
  local positions = {}
  for i, key in ipairs(keys) do
    positions[i] = position_of[key]
  end
  return positions
end

-- Notes that these were taken of what is next, which are the first of it.
local function keep_turn(keys)
  if #keys == 0 or not fairness() then
    return
  elseif was_preferred then
    redis.call('HSET', queue, 'c', struct.pack(TURN, turn_before + 1, passes_before + 1))
  else
    redis.call('HSET', queue, 'c', struct.pack(TURN, position_of[keys[#keys]] + 1, 0))
  end
end
