-- What a queue consists of, in the order in which every script on a queue gets its keys:
--   queue     hash    m metadata, v revision, s stamp, u last update, n ends noted, w where compaction walks
--   counter   string  the last rank given; revisions are drawn from it too
--   messages  hash    key → record
--   ready     zset    key by rank
--   ends      zset    chunks of keys by the second in which their messages end
-- A message's key is its rank (7 bytes, big-endian) and its nonce (5 bytes).
local queue, counter, messages, ready, ends = unpack(KEYS, 1, 5)
local KEY_BYTES = 12
local CHUNK_BYTES = 32 * KEY_BYTES

-- The next rank: behind every other, and never before the clock.
local function next_rank()
  return math.max((tonumber(redis.call('GET', counter)) or 0) + 1, now)
end

local function decimal(rank)
  return string.format('%.0f', rank)
end

local function keys_of(chunk)
  local keys = {}
  for from = 1, #chunk, KEY_BYTES do
    keys[#keys + 1] = string.sub(chunk, from, from + KEY_BYTES - 1)
  end
  return keys
end

