-- Fair queues: messages stand in shards too, each tenant's in a few of them, and the shards are served in turn.
--
-- `shards` has the keys of the messages that stand in one. Their score is a digit for the set that the message is in and behind it
-- the shard in four digits: 10017 is free in shard 17. Keys of one score are in the order of their ranks. So the next shard
-- that has something free is the next score, with its oldest message, however many shards there are, and what a shard holds is
-- counted without being looked at. Shards and scores are text here: it is costly to make text of numbers.
--
-- What was posted before the queue was fair has no shard: what has a rank up to the boundary, and what was delayed then, which
-- comes to UNSHARDED once it is due. A queue that is plain again stays fair until nothing is left in a shard.
local FREE, DELAYED, HELD = '1', '2', '3'
local SHARD_DIGITS = 4
local FIRST_SHARD, LAST_SHARD, UNSHARDED = '0000', '1023', '1024'
-- How many shards, how many of them a tenant has, the boundary; whose turn it was, and how many claims in a row were served as
-- they prefer: see turns.lua.
local FAIRNESS = '>I2I2I8c4B'

local function read_fairness(packed)
  if not packed then
    return false
  end
  local count, per_tenant, boundary, turn, passes = struct.unpack(FAIRNESS, packed)
  if count == 1 and redis.call('EXISTS', shards) == 0 then
    return false
  end
  return {count = count, per_tenant = per_tenant, boundary = boundary, turn = turn, passes = passes}
end

-- How the queue is divided, or false. Read once.
local known_fairness
local function fairness()
  if known_fairness == nil then
    known_fairness = read_fairness(redis.call('HGET', queue, 'f'))
  end
  return known_fairness
end

local function keep_fairness(divided)
  redis.call('HSET', queue, 'f',
    struct.pack(FAIRNESS, divided.count, divided.per_tenant, divided.boundary, divided.turn, divided.passes))
end

local function shards_in(text)
  return pieces_of(text, SHARD_DIGITS)
end

local function digit_of(set)
  return set == ready and FREE or set == delayed and DELAYED or HELD
end

-- Members of a set by rank, with these keys.
local function by_rank(keys)
  local members = {}
  for i, key in ipairs(keys) do
    members[2 * i - 1], members[2 * i] = rank_of(key), key
  end
  return members
end

-- Puts messages that are in this set into shards: those that are known to have one into that, others where they belong.
local function put_into_shards(keys, set, known)
  local boundary, digit = fairness().boundary, digit_of(set)
  local members = {}
  for i, key in ipairs(keys) do
    local shard = known[i]
    if not shard or shard == UNSHARDED then
      shard = rank_of(key) > boundary and (shard or set == ready and UNSHARDED)
    end
    if shard then
      members[#members + 1], members[#members + 2] = digit .. shard, key
    end
  end
  if #members > 0 then
    redis.call('ZADD', shards, unpack(members))
  end
end

-- The shards of messages, in the places of those that stand in one.
local function shards_of(keys)
  local scores = redis.call('ZMSCORE', shards, unpack(keys))
  for i, score in ipairs(scores) do
    scores[i] = score and string.sub(score, 2)
  end
  return scores
end

-- Moves messages from one of the three sets to another. Their shards may be known.
local function move(keys, from, to, known)
  redis.call('ZREM', from, unpack(keys))
  redis.call('ZADD', to, unpack(by_rank(keys)))
  if fairness() then
    put_into_shards(keys, to, known or shards_of(keys))
  end
end
