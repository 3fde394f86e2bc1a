-- What a queue consists of, in the order in which every script on a queue gets its keys:
--   queue     hash    m metadata, p what scripts obey of it (see policy.lua), v revision, s stamp, u last update,
--                     n ends noted, w where compaction walks, t the last place given to a post that had to
--                     wait (see posting.lua), o the last number given in the outbox, f how a fair queue is divided
--                     and whose turn it was (see fair.lua)
--   counter   string  the last rank that is visible
--   messages  hash    key → record
--   ready     zset    keys of messages that are free, by rank
--   delayed   zset    keys of messages that are not due yet, by rank, which is the time (µs) when they are
--   ends      zset    chunks of keys by the second in which their messages end, which each begins with
--   shards    zset    keys of messages that stand in shards of a fair queue: see fair.lua
--   tenants   zset    the tenants that posted most of late, by how much: see sharding.lua
--   leases    zset    live claims by the time (µs) at which they end
--   held      zset    keys of messages under a live claim, by rank: every message is in one of the three
--   holds     hash    key → what claims have changed about a message: see holds.lua
--   claims    hash    claim → its ttl, since when it runs, the keys it was given: see claims.lua
--   outbox    list    dead letters on their way to another queue: see letters.lua
-- A message's key is its rank (7 bytes, big-endian) and its nonce (5 bytes).
local queue, counter, messages, ready, delayed, ends, shards, tenants, leases, held, holds, claims, outbox = unpack(KEYS, 1, 13)
local QUEUE_KEYS = 13
-- So many of them, the first, are all that a post without letters needs.
local POST_KEYS = 9
local KEY_BYTES = 12

local function last_rank()
  return tonumber(redis.call('GET', counter)) or 0
end

-- The next rank: behind every other that is visible, and never before the clock.
local function next_rank()
  return math.max(last_rank() + 1, now)
end

-- The next number in a field of the queue: never given before, not even in an earlier queue of that name.
local function next_number(field)
  return math.max((tonumber(redis.call('HGET', queue, field)) or 0) + 1, next_rank())
end

local function decimal(rank)
  return string.format('%.0f', rank)
end

local function rank_of(key)
  return struct.unpack('>I8', '\0' .. string.sub(key, 1, 7))
end

-- What a chunk of `ends` begins with: a message whose life was prolonged has an end in two of them,
-- and two that hold the same keys must not be one member.
local CHUNK_HEAD_BYTES = 4
local function chunk_head(second)
  return struct.pack('>I4', second)
end

-- What stands in a text one behind the other, each so many bytes long.
local function pieces_of(text, bytes)
  local pieces = {}
  for from = 1, #text, bytes do
    pieces[#pieces + 1] = string.sub(text, from, from + bytes - 1)
  end
  return pieces
end

local function keys_of(chunk)
  return pieces_of(chunk, KEY_BYTES)
end

