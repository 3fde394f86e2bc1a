-- Fair queues: messages stand in shards too, each tenant's in a few of them, and the shards are served in turn.
--
-- `shards` has the keys of the messages that stand in one. Their score is a digit for the set that the message is in and behind
-- it the shard in four digits: 10017 is available in shard 17. Keys of one score are in the order of their ranks. So the next
-- shard that has something available is the next score, with its oldest message, however many shards there are, and the
-- messages of a shard are counted without being visited. Shards and scores are strings here, because Lua formats numbers slowly.
--
-- A message that was posted before the queue was fair has no shard: its rank is at most the boundary. A message that was delayed
-- then joins UNSHARDED when it is due. A queue that is plain again stays fair until nothing is left in a shard.
local FREE = '1'
local DELAYED = '2'
local IN_FLIGHT = '3'
local FIRST_SHARD = '0000'
local LAST_SHARD = '1023'
local UNSHARDED = '1024'
-- Number of shards, shards per tenant, the boundary; the position that was served last, and how many claims in a row were served
-- from the shards that they prefer (turns.lua).
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

-- How the queue is divided, or false.
local function fairness()
  if known_fairness == nil then
    known_fairness = read_fairness(fairness_packed)
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

-- Puts messages that are in the set of this digit into shards: those whose shard is known into that, the others where they
-- belong.
local function put_into_shards(keys, digit, known)
  local boundary = fairness().boundary
  local members = {}
  for i, key in ipairs(keys) do
    local shard = known[i]
    if not shard or shard == UNSHARDED then
      shard = rank_of(key) > boundary and (shard or digit == FREE and UNSHARDED)
    end
    if shard then
      members[#members + 1], members[#members + 2] = digit .. shard, key
    end
  end
  if #members > 0 then
    call_with_all('ZADD', shards, members)
  end
end

-- The shards of messages; false for a message that is in none.
local function shards_of(keys)
  local scores = ask_for_all('ZMSCORE', shards, keys)
  for i, score in ipairs(scores) do
    scores[i] = score and string.sub(score, 2)
  end
  return scores
end
