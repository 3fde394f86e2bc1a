-- Deletes one message by key where expiry entries are left for the sweep to find stale.
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[5], ARGV[1])
