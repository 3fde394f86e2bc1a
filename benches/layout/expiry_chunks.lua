-- Packs CHUNK keys into an expiry entry. The newest entry of a second sorts last, because keys
-- begin with the rank.
local function note(second_of_end, packed)
  local full, entries = CHUNK * 12, {}
  local last = redis.call('ZREVRANGEBYSCORE', KEYS[6], second_of_end, second_of_end, 'LIMIT', 0, 1)[1]
  if last and #last < full then
    redis.call('ZREM', KEYS[6], last)
    packed = last .. packed
  end
  for i = 1, #packed, full do
    entries[#entries + 1] = second_of_end
    entries[#entries + 1] = packed:sub(i, i + full - 1)
  end
  pairwise('ZADD', KEYS[6], entries)
end

local function finish()
  redis.call('HINCRBY', KEYS[1], 'n', n)
end
