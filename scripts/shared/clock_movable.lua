-- Returns the store's clock as tests move it: TIME plus an offset (µs) that is stored beside the other
-- keys of a queue. Keys that belong to no queue have no offset.
local function clock_of(queue)
  local time = redis.call('TIME')
  local prefix = string.match(queue, '^.*}')
  local offset = prefix and redis.call('GET', prefix .. ':clock') or 0
  return time[1] * 1000000 + time[2] + offset
end
