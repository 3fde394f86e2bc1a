-- Take a queue's name out of its project's register, unless it was registered anew.
--
-- KEYS  1 the project's queue names (zset)    2 their stamps (hash)
-- ARGV  1 the name    2 the stamp that was laid to rest
-- Returns how many names were taken out.
assert(#KEYS == 2 and #ARGV == 2, 'queue_unregister: 2 keys, 2 arguments')
local names, stamps, name, stamp = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

if redis.call('HGET', stamps, name) ~= stamp then
  return 0
end
redis.call('HDEL', stamps, name)
return redis.call('ZREM', names, name)
