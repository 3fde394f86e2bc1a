-- What is kept of posts with an idempotency key, and of restored pops: both end with the queue.
local FORGOTTEN_MAX = 8

-- Keeps what came of a request for this long (s), and forgets some of what was kept long enough.
local function keep_outcome(name, outcome, kept_s)
  local over = redis.call('ZRANGEBYSCORE', idempotency_expirations, '-inf', decimal(now), 'LIMIT', 0, FORGOTTEN_MAX)
  if #over > 0 then
    redis.call('HDEL', idempotency, unpack(over))
    redis.call('ZREM', idempotency_expirations, unpack(over))
  end
  local kept_until = decimal(now + kept_s * 1000000)
  redis.call('HSET', idempotency, name, outcome)
  redis.call('ZADD', idempotency_expirations, kept_until, name)
  redis.call('ZADD', due, 'LT', kept_until, queue_tag())
end

-- What is kept of a request, if that is not over.
local function kept_outcome(name)
  local outcome = redis.call('HGET', idempotency, name)
  if outcome and now < tonumber(redis.call('ZSCORE', idempotency_expirations, name)) then
    return outcome
  end
end
