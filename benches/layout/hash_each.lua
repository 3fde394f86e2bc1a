-- Stores a hash for each message, which Redis expires.
for i = 1, n do
  local name = KEYS[5] .. keys[i]
  redis.call('HSET', name, 'm', records[i])
  redis.call('EXPIRE', name, ends[i] - second)
end
