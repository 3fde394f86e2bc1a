-- Deliveries to the subscribers of a queue. storage/deliveries.rs says when work is due.
--
-- Field w of the queue is the delivery lease (lease.lua). It is in the queue, so that a post reads
-- it without a further key. Field s of `deliveries` is what the last holder had seen when it ended
-- the lease: the last visible rank, the version of the subscriptions, and the time (µs) when the
-- next retry is due, or 0.
local SEEN = '>I8I8I8'

-- Returns the number of messages that were ever visible, or were deleted while they were delayed.
-- The queue must be loaded, without due changes.
local function feed_total()
  return posted_total - redis.call('ZCARD', delayed)
end

-- Returns the state of the feed (FeedState). The last number is when the first delayed message is
-- due, or 0.
local function feed_state()
  local next_delayed = 0
  if logical_packed then
    local offset = struct.unpack(LOGICAL_TIME, logical_packed)
    local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
    next_delayed = first and tonumber(first) - offset or 0
  end
  local version = redis.call('HGET', deliveries, 'v') or '0'
  return decimal(now), decimal(last_visible), decimal(feed_total()), version, decimal(next_delayed)
end

-- Returns the time (µs) when the lease expires, or from which work is due; infinity if none will be.
local function deliveries_due_at()
  local _, expires_at, holder = read_lease(queue, DELIVERY_LEASE)
  if expires_at and is_lease_live(expires_at, DELIVERY_LEASE_US) then
    return expires_at
  elseif holder and holder ~= NO_CLAIM then
    return now
  end
  local seen, version = unpack(redis.call('HMGET', deliveries, 's', 'v'))
  if not seen then
    return now
  end
  local last, seen_version, next_retry = struct.unpack(SEEN, seen)
  if last_visible > last or tonumber(version) ~= seen_version then
    return now
  end
  return next_retry > 0 and next_retry or math.huge
end
