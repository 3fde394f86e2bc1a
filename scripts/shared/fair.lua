-- Fair queues: messages are also in shards, those of a tenant in a few of them, and the shards are
-- served in turn.
--
-- `shards` has the keys of the messages that are in a shard. The score is a digit for the set that
-- the message is in, followed by the shard in four digits: 10017 is available in shard 17. Keys
-- with the same score are in rank order. So the next score gives the next shard that has an
-- available message, and the oldest of them, however many shards there are. The messages of a shard
-- are counted without visiting them. Shards and scores are strings here, because Lua formats
-- numbers slowly.
--
-- A message that was posted before the queue became fair has no shard: its rank is at most the
-- boundary. If it was delayed then, it joins UNSHARDED when it is released. A queue whose metadata
-- is no longer fair stays fair until its shards are empty.
local AVAILABLE = '1'
local DELAYED = '2'
local IN_FLIGHT = '3'
local FIRST_SHARD = '0000'
local LAST_SHARD = '1023'
local UNSHARDED = '1024'
-- Number of shards, shards per tenant, the boundary, the position that was served last, and the
-- number of claims in a row that were served from preferred shards (turns.lua).
local FAIRNESS = '>I2I2I8c4B'

local function read_fairness(packed)
  if not packed then
    return false
  end
  local count, per_tenant, boundary, turn, preferred_in_a_row = struct.unpack(FAIRNESS, packed)
  if count == 1 and redis.call('EXISTS', call.shards) == 0 then
    return false
  end
  return {
    count = count, per_tenant = per_tenant, boundary = boundary, turn = turn, preferred_in_a_row = preferred_in_a_row,
  }
end

-- Returns the number of shards and the other fields of FAIRNESS, or false if the queue is not fair.
local function fairness()
  if call.loaded_fairness == nil then
    call.loaded_fairness = read_fairness(call.fairness_packed)
  end
  return call.loaded_fairness
end

local function store_fairness(fair)
  redis.call('HSET', call.queue, 'f',
    struct.pack(FAIRNESS, fair.count, fair.per_tenant, fair.boundary, fair.turn, fair.preferred_in_a_row))
end

local function split_shards(packed)
  return split(packed, SHARD_DIGITS)
end

-- Puts messages into shards. `digit` names the set that they are in. Messages whose shard is known
-- go there, the others to UNSHARDED if they belong in a shard at all.
local function put_into_shards(keys, digit, known_shards)
  local boundary = fairness().boundary
  local members = {}
  for i, key in ipairs(keys) do
    local shard = known_shards[i]
    if not shard or shard == UNSHARDED then
      shard = rank_of(key) > boundary and (shard or digit == AVAILABLE and UNSHARDED)
    end
    if shard then
      members[#members + 1], members[#members + 2] = digit .. shard, key
    end
  end
  if #members > 0 then
    call_in_chunks('ZADD', call.shards, members)
  end
end

-- Returns the shard of each message; false if it is in none.
local function shards_of(keys)
  local scores = query_in_chunks('ZMSCORE', call.shards, keys)
  for i, score in ipairs(scores) do
    scores[i] = score and string.sub(score, 2)
  end
  return scores
end
