-- The common part of a post in all layouts. The benchmark sets CHUNK in the line before this one.
-- KEYS: 1 queue hash, 2 ready, 3 rank counter, 4 retry answer, 5 messages, 6 expiry (5 and 6 may be
-- prefixes). ARGV: 1 expected revision, then a nonce and a tail for each message.
local queue = redis.call('HMGET', KEYS[1], 'v', 'n', 'x', 'o')
if queue[1] ~= ARGV[1] then
  return redis.error_reply('STALE revision')
end
local time = redis.call('TIME')
local second = tonumber(time[1])
local now = second * 1000000 + tonumber(time[2])
local n = (#ARGV - 1) / 2
local first = math.max(tonumber(redis.call('GET', KEYS[3]) or 0) + 1, now)
redis.call('SET', KEYS[3], first + n - 1)
redis.call('SET', KEYS[4], first, 'PX', 30000)

-- unpack() is bounded by Lua's C stack, so long lists go 1000 pairs at a time.
local function pairwise(command, key, args)
  for i = 1, #args, 2000 do
    redis.call(command, key, unpack(args, i, math.min(i + 1999, #args)))
  end
end

local head = '\149\1\207' .. struct.pack('>I8', now)
local keys, records, ends, ready = {}, {}, {}, {}
for i = 1, n do
  local rank, tail = first + i - 1, ARGV[2 * i + 1]
  local key = struct.pack('>I7', rank) .. ARGV[2 * i]
  keys[i] = key
  records[i] = head .. tail
  ends[i] = second + struct.unpack('>I4', tail, 2)
  ready[2 * i - 1] = rank
  ready[2 * i] = key
end
pairwise('ZADD', KEYS[2], ready)
