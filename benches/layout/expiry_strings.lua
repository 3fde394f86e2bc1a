-- Appends keys to a string for each second. The first batch of a string also records the second.
local function note(second_of_end, packed)
  if redis.call('APPEND', KEYS[6] .. second_of_end, packed) == #packed then
    redis.call('ZADD', KEYS[6], second_of_end, second_of_end)
  end
end

local function finish()
  redis.call('HINCRBY', KEYS[1], 'n', n)
end
