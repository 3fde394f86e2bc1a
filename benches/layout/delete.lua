-- Deletes one message by key. Its expiry entry stays, and the next sweep removes it.
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[5], ARGV[1])
