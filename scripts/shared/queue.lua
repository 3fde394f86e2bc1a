-- What a queue consists of. src/storage/redis/keys.rs lists which keys a script gets, under these names:
--   queue        hash    m metadata, p what scripts obey of it (policy.lua), v its revision, u the token of the last update,
--                        s registration version, e epoch: changes when the queue is created or purged
--                        c the last rank that is visible, o the last number of a dead letter, f how a fair queue is divided
--                        (fair.lua), l logical time while something is delayed (logical_time.lua)
--                        d the time (µs) before which nothing is due, x how far a block of expirations was visited
--                        (queue_settle.lua)
--   messages     hash    key → record (storage/record.rs)
--   ready, in_flight, delayed
--                zset    entries by rank (entry.lua). Every message is in one of the three: available; claimed, or returned
--                        with a delay; not due yet
--   expirations  zset    blocks of ranks by the earliest second in which a message of theirs may end (expirations.lua)
--   leases       zset    claims, and messages returned with a delay, by the time (µs) at which they end
--   claims       hash    claim id → its ttl, when it was made, its entries (claims.lua)
--   outbox       list    dead letters on their way to another queue (dead_letters.lua)
--   received     hash    the last dead letter that came from each queue
--   shards       zset    keys of messages in the shards of a fair queue (fair.lua)
--   tenants      zset    the tenants that posted most recently, by how much (sharding.lua)
--   idempotency, idempotency_expirations
--                hash, zset   idempotency key → digest and keys of its post; by the time (µs) until which that is kept
--   tombstone    hash    of a deleted queue, for a day: v its registration version, c the last rank or number it may have given
--   due          zset    of all queues in the slot: those that have something due, by when (µs), or earlier
-- A message's key is its rank (7 bytes, big-endian) and its nonce (5 bytes).

-- Numbers in Lua are doubles, which are exact up to 2^53, as ranks are.
local function decimal(number)
  return string.format('%d', number)
end

local function rank_of(key)
  return (struct.unpack(RANK, key))
end

-- Cuts a string into pieces of this many bytes.
local function pieces_of(text, bytes)
  local pieces = {}
  for from = 1, #text, bytes do
    pieces[#pieces + 1] = string.sub(text, from, from + bytes - 1)
  end
  return pieces
end

-- Runs a variadic command on many values in steps, because Lua passes at most some thousands of values at once. Pairs stay
-- together.
local PASSED_MAX = 2000
local function call_with_all(command, key, values)
  local sum = 0
  for from = 1, #values, PASSED_MAX do
    sum = sum + redis.call(command, key, unpack(values, from, math.min(from + PASSED_MAX - 1, #values)))
  end
  return sum
end

-- The same for a command that answers a list with an item for each value.
local function ask_for_all(command, key, values)
  local answers = {}
  for from = 1, #values, PASSED_MAX do
    for _, answer in ipairs(redis.call(command, key, unpack(values, from, math.min(from + PASSED_MAX - 1, #values)))) do
      answers[#answers + 1] = answer
    end
  end
  return answers
end

-- The time before which nothing is due in the queue, or nil if nothing will be. It may be too early, but is never too late.
local next_due

-- The queue as the index of due queues names it.
local function queue_tag()
  return string.match(queue, '{(.*)}')
end

-- Notes that something will be due in the queue at this time (µs).
local function note_due(time)
  if not next_due or time < next_due then
    next_due = time
    redis.call('HSET', queue, 'd', decimal(time))
    redis.call('ZADD', due, 'LT', decimal(time), queue_tag())
  end
end
