-- The store's clock as tests move it: TIME plus an offset (µs) kept beside the queue's other keys.
local time = redis.call('TIME')
local offset = redis.call('GET', string.match(KEYS[1], '^.*}') .. ':clock') or 0
local now = time[1] * 1000000 + time[2] + offset

