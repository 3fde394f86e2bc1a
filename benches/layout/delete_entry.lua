-- Deletes one message by key together with its own expiry entry.
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[6], ARGV[1])
return redis.call('HDEL', KEYS[5], ARGV[1])
