-- Register a queue's name with its project, under a new stamp.
--
-- KEYS  1 the project's queue names (zset)    2 their stamps (hash)
-- ARGV  1 the name
-- Returns the stamp, higher than any the project has given.
assert(#KEYS == 2 and #ARGV == 1, 'queue_register: 2 keys, 1 argument')
local names, stamps, name = KEYS[1], KEYS[2], ARGV[1]
local LAST = '/'

local last = tonumber(redis.call('HGET', stamps, LAST)) or 0
local stamp = string.format('%.0f', math.max(last + 1, now))
redis.call('HSET', stamps, name, stamp, LAST, stamp)
redis.call('ZADD', names, 0, name)
return stamp
