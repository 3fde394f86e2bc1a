-- The store's clock as tests move it: TIME plus an offset (µs) that is stored beside the other keys
-- of a queue.
local function clock_of(queue)
  local time = redis.call('TIME')
  local offset = redis.call('GET', string.match(queue, '^.*}') .. ':clock') or 0
  return time[1] * 1000000 + time[2] + offset
end
local now = clock_of(KEYS[1])
