-- The store's clock, in microseconds since 1970. It is the same for every queue, but for tests.
local function clock(_queue)
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local now = clock(KEYS[1])

