-- What a queue consists of, in the order in which every script on a queue gets its keys:
--   queue     hash    m metadata, v revision, s stamp, u last update, n ends noted, w where compaction walks
--   counter   string  the last rank given; revisions are drawn from it too
--   messages  hash    key → record
--   ready     zset    keys of messages that are free, by rank
--   held      zset    keys of messages under a live claim, by rank: every message is in one of the two
--   ends      zset    chunks of keys by the second in which their messages end, which each begins with
--   holds     hash    key → what claims have changed about a message: see holds.lua
--   leases    zset    live claims by the time (µs) at which they end
--   claims    hash    claim → its ttl, since when it runs, the keys it was given: see claims.lua
-- A message's key is its rank (7 bytes, big-endian) and its nonce (5 bytes).
local queue, counter, messages, ready, held, ends, holds, leases, claims = unpack(KEYS, 1, 9)
local QUEUE_KEYS = 9
local KEY_BYTES = 12

-- The next rank: behind every other, and never before the clock.
local function next_rank()
  return math.max((tonumber(redis.call('GET', counter)) or 0) + 1, now)
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

local function keys_of(chunk)
  local keys = {}
  for from = 1, #chunk, KEY_BYTES do
    keys[#keys + 1] = string.sub(chunk, from, from + KEY_BYTES - 1)
  end
  return keys
end

