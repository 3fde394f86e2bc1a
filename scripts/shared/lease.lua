-- Leases: at any time, at most one process does certain work. crates/storage/src/task_lease.rs specifies
-- them. A lease is a field of a hash: its fence, the time (µs) when it expires, and the holder
-- (LEASE). A lease that nobody has taken yet, or that was ended, has expired and has the holder
-- NO_CLAIM.
local function read_lease(key, field)
  local lease = redis.call('HGET', key, field)
  if lease then
    return struct.unpack(LEASE, lease)
  end
end

local function store_lease(key, field, fence, expires_at, holder)
  -- Frees memory before anything grows, so that this works when the store is full.
  redis.call('HDEL', key, field)
  redis.call('HSET', key, field, struct.pack(LEASE, fence, expires_at, holder))
end

-- Returns whether a lease of this duration (µs) that expires at this time is live. A clock that has
-- stepped back does not prolong it.
local function is_lease_live(expires_at, duration)
  return call.now < expires_at and expires_at <= call.now + duration
end

-- Takes a lease and returns its fence; nothing if another holder has it or there is no such lease.
local function take_lease(key, field, holder, duration)
  local fence, expires_at, last_holder = read_lease(key, field)
  if not fence or holder ~= last_holder and is_lease_live(expires_at, duration) then
    return
  end
  fence = holder == last_holder and fence or fence + 1
  store_lease(key, field, fence, call.now + duration, holder)
  return fence
end

-- Renews a lease, and returns whether it has this fence.
local function renew_lease(key, field, fence, duration)
  local last_fence, _, holder = read_lease(key, field)
  if last_fence ~= fence then
    return false
  end
  store_lease(key, field, fence, call.now + duration, holder)
  return true
end
