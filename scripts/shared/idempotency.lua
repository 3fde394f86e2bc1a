-- Stored outcomes of posts with an idempotency key. They are deleted with the queue.
local EXPIRED_REMOVED_MAX = 8

-- Stores the outcome of a request for this many seconds, and removes some expired outcomes.
local function store_outcome(name, outcome, lifetime_s)
  local expired = redis.call(
    'ZRANGEBYSCORE', call.idempotency_expirations, '-inf', decimal(call.now), 'LIMIT', 0, EXPIRED_REMOVED_MAX)
  if #expired > 0 then
    redis.call('HDEL', call.idempotency, unpack(expired))
    redis.call('ZREM', call.idempotency_expirations, unpack(expired))
  end
  local expires_at = decimal(call.now + lifetime_s * 1000000)
  redis.call('HSET', call.idempotency, name, outcome)
  redis.call('ZADD', call.idempotency_expirations, expires_at, name)
  redis.call('ZADD', call.due, 'LT', expires_at, hash_tag())
end

-- Returns the stored outcome of a request, unless it has expired.
local function stored_outcome(name)
  local outcome = redis.call('HGET', call.idempotency, name)
  if outcome and call.now < tonumber(redis.call('ZSCORE', call.idempotency_expirations, name)) then
    return outcome
  end
end
