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

-- The positions that have something free, with their oldest messages, in the order of their turns behind one; so many at most.
local function positions_behind(turn, limit)
  local found = {}
  local function look(behind, last)
    while #found < limit do
      local head = redis.call('ZRANGEBYSCORE', shards, '(' .. behind, last, 'WITHSCORES', 'LIMIT', 0, 1)
      if not head[1] then
        return
      end
      behind = head[2]
      found[#found + 1] = {position = tonumber(behind), keys = {head[1]}}
    end
  end
  local function look_at_unsharded()
    local keys = #found < limit and free_at(UNSHARDED, 0, 1) or {}
    if keys[1] then
      found[#found + 1] = {position = UNSHARDED, keys = keys}
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
  return found
end

-- Those of some positions that have something free, with their oldest messages, the longest waiting first.
local function positions_among(numbers)
  local found = {}
  for _, position in ipairs(numbers) do
    local keys = free_at(position, 0, 1)
    if keys[1] then
      found[#found + 1] = {position = position, keys = keys}
    end
  end
  table.sort(found, function(one, other) return rank_of(one.keys[1]) < rank_of(other.keys[1]) end)
  return found
end

-- What was picked last: each message's position, whether as somebody prefers; and how things stood before.
local position_of, was_preferred, turn_before, passes_before

-- The keys of so many free messages at most, of which each position gives one in turn.
local function pick(positions, limit)
  local keys = {}
  local count = 1
  while #positions > 0 do
    for round = 1, count do
      for _, one in ipairs(positions) do
        local key = one.keys[round]
        if key and #keys < limit then
          keys[#keys + 1] = key
          position_of[key] = one.position
        end
      end
    end
    if #keys == limit then
      break
    end
    -- Those that have given all that they were asked for go on.
    local others = {}
    for _, one in ipairs(positions) do
      if #one.keys == count then
        one.passed = (one.passed or 0) + count
        others[#others + 1] = one
      end
    end
    positions = others
    count = math.ceil((limit - #keys) / #positions)
    for _, one in ipairs(positions) do
      one.keys = free_at(one.position, one.passed, count)
    end
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
  position_of, was_preferred = {}, false
  if preferred and passes_before < PREFERRED_IN_A_ROW_MAX then
    local keys = pick(positions_among(preferred), limit)
    if #keys > 0 then
      was_preferred = true
      return keys
    end
  end
  return pick(positions_behind(turn_before, limit), limit)
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
