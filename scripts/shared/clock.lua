-- Returns the store's clock in microseconds since 1970. It is the same for all queues, except in tests.
local function clock_of(_queue)
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
