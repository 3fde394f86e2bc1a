-- The store's clock in microseconds since 1970. It is the same for all queues, except in tests.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function clock_of(_queue)
  return now
end
