-- Fair queues: messages stand in shards too, each tenant's in a few of them, and the shards are served in turn.
--
-- `shards` has the keys of the messages that stand in one, by the number of the shard plus the band of the set that the message
-- is in. Keys of one score are in the order of their ranks. So the next shard that has something free is the next score, with its
-- oldest message, however many shards there are, and what a shard holds is counted without being looked at.
--
-- What was posted before the queue was fair has no shard: what has a rank up to the boundary, and what was delayed then, which
-- comes to UNSHARDED once it is due. A queue that is plain again stays fair until nothing is left in a shard.
local BAND = 2048
local UNSHARDED = 1024
-- How many shards, how many of them a tenant has, the boundary.
local FAIRNESS = '>I2I2I8'

local function read_fairness(packed)
  if not packed then
    return false
  end
  local count, per_tenant, boundary = struct.unpack(FAIRNESS, packed)
  if count == 1 and redis.call('EXISTS', shards) == 0 then
    return false
  end
  return {count = count, per_tenant = per_tenant, boundary = boundary}
end

-- How the queue is divided, or false. Read once.
local known_fairness
local function fairness()
  if known_fairness == nil then
    known_fairness = read_fairness(redis.call('HGET', queue, 'f'))
  end
  return known_fairness
end

-- So many numbers that are packed in two bytes each, from a byte on.
local function numbers_in(packed, from, count)
  local numbers = {struct.unpack('>' .. string.rep('I2', count), packed, from)}
  numbers[count + 1] = nil
  return numbers
end

local function band_of(set)
  return set == ready and 0 or set == delayed and BAND or 2 * BAND
end

-- Members of a set by rank, with these keys.
local function by_rank(keys)
  local members = {}
  for _, key in ipairs(keys) do
    members[#members + 1], members[#members + 2] = rank_of(key), key
  end
  return members
end

-- Puts messages that are in this set into shards: those with a number into that, others where they belong. What has a rank up
-- to the boundary has none.
local function put_into_shards(keys, set, numbers)
  local divided = fairness()
  if not divided then
    return
  end
  local members = {}
  for i, key in ipairs(keys) do
    local shard = rank_of(key) > divided.boundary and (numbers[i] or set == ready and UNSHARDED)
    if shard then
      members[#members + 1], members[#members + 2] = band_of(set) + shard, key
    end
  end
  if #members > 0 then
    redis.call('ZADD', shards, unpack(members))
  end
end

-- Moves messages from one of the three sets to another. Their shards may be known.
local function move(keys, from, to, numbers)
  redis.call('ZREM', from, unpack(keys))
  redis.call('ZADD', to, unpack(by_rank(keys)))
  if not fairness() then
    return
  elseif not numbers then
    numbers = redis.call('ZMSCORE', shards, unpack(keys))
    for i, score in ipairs(numbers) do
      numbers[i] = score and score % BAND
    end
  end
  put_into_shards(keys, to, numbers)
end
