-- Deliveries to the subscribers of a queue. storage/deliveries.rs says when work is due.
--
-- Field w of the queue is the delivery lease (lease.lua). It is in the queue, so that a post reads
-- it without a further key. Field s of `deliveries` is what the last holder had seen when it ended
-- the lease: the last visible rank, the version of the subscriptions, and the time (µs) when the
-- next retry is due, or 0. Field o is the time (µs) until which attempts of a holder that has not
-- ended its lease may still run.
local SEEN = '>I8I8I8'

-- Returns the number of messages that were ever visible, or were deleted while they were delayed.
-- The queue must be loaded, without due changes.
local function feed_total()
  return call.posted_total - redis.call('ZCARD', call.delayed)
end

-- Returns the time (µs) until which attempts of a process that has lost the lease may still run, or
-- 0. `known` is field o. A lease of `holder` is not lost.
local function lost_until(known, holder)
  local at = tonumber(known or '0')
  local _, expires_at, last_holder = read_lease(call.queue, DELIVERY_LEASE)
  if last_holder and last_holder ~= NO_CLAIM and last_holder ~= holder
    and not is_lease_live(expires_at, DELIVERY_LEASE_US) then
    at = math.max(at, expires_at + LOST_ATTEMPTS_US)
  end
  -- A clock that has stepped back does not prolong it.
  return at > call.now and math.min(at, call.now + DELIVERY_LEASE_US + LOST_ATTEMPTS_US) or 0
end

-- Returns the state of the feed (FeedState). The last numbers are when the first delayed message is
-- due, and until when attempts of a process that has lost the lease may still run, or 0. Call this
-- only if the lease is live.
local function feed_state()
  local next_delayed = 0
  if call.logical_packed then
    local offset = struct.unpack(LOGICAL_TIME, call.logical_packed)
    local first = redis.call('ZRANGE', call.delayed, 0, 0, 'WITHSCORES')[2]
    next_delayed = first and tonumber(first) - offset or 0
  end
  local version, lost = unpack(redis.call('HMGET', call.deliveries, 'v', 'o'))
  return decimal(call.now), decimal(call.last_visible), decimal(feed_total()), version or '0', decimal(next_delayed),
    lost and tonumber(lost) > call.now and lost or '0'
end

-- Returns the time (µs) when the lease expires, or from which work is due; infinity if none will be.
local function deliveries_due_at()
  local _, expires_at, holder = read_lease(call.queue, DELIVERY_LEASE)
  if expires_at and is_lease_live(expires_at, DELIVERY_LEASE_US) then
    return expires_at
  elseif holder and holder ~= NO_CLAIM then
    return call.now
  end
  local seen, version = unpack(redis.call('HMGET', call.deliveries, 's', 'v'))
  if not seen then
    return call.now
  end
  local last, seen_version, next_retry = struct.unpack(SEEN, seen)
  if call.last_visible > last or tonumber(version) ~= seen_version then
    return call.now
  end
  return next_retry > 0 and next_retry or math.huge
end
