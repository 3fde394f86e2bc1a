-- Task leases: at any time, at most one process works on a task. src/storage/task_lease.rs
-- specifies them. `task_leases` has the lease of each running task: its fence, the time (µs) when it
-- expires, and the holder (TASK_LEASE). A lease that nobody has taken yet is expired.
local function read_task_lease(task)
  local lease = redis.call('HGET', task_leases, task)
  if lease then
    return struct.unpack(TASK_LEASE, lease)
  end
end

local function store_task_lease(task, fence, expires_at, holder)
  -- Frees memory before anything grows, so that this works when the store is full.
  redis.call('HDEL', task_leases, task)
  redis.call('HSET', task_leases, task, struct.pack(TASK_LEASE, fence, expires_at, holder))
end

-- Returns whether a lease that expires at this time is live. A clock that has stepped back does not
-- prolong it.
local function is_lease_live(expires_at)
  return now < expires_at and expires_at <= now + TASK_LEASE_US
end

-- Adds the lease of a new task. The janitor finds it if no process takes it.
local function add_task_lease(task)
  store_task_lease(task, 0, 0, NO_CLAIM)
  redis.call('ZADD', due, 'LT', decimal(now), hash_tag())
end

-- Takes a lease and returns its fence; nothing if another holder has it or the task has ended.
local function take_task_lease(task, holder)
  local fence, expires_at, last_holder = read_task_lease(task)
  if not fence or holder ~= last_holder and is_lease_live(expires_at) then
    return
  end
  fence = holder == last_holder and fence or fence + 1
  store_task_lease(task, fence, now + TASK_LEASE_US, holder)
  return fence
end

-- Renews a lease, and returns whether it has this fence.
local function renew_task_lease(task, fence)
  local last_fence, _, holder = read_task_lease(task)
  if last_fence ~= fence then
    return false
  end
  store_task_lease(task, fence, now + TASK_LEASE_US, holder)
  return true
end

-- Returns the time (µs) when a lease expires first, now if one has expired; and a task whose lease
-- has expired, or an empty text.
local function first_task_lease()
  local first, expired = math.huge, ''
  local leases_by_task = redis.call('HGETALL', task_leases)
  for i = 1, #leases_by_task, 2 do
    local _, expires_at = struct.unpack(TASK_LEASE, leases_by_task[i + 1])
    if not is_lease_live(expires_at) then
      expires_at, expired = now, leases_by_task[i]
    end
    first = math.min(first, expires_at)
  end
  return first, expired
end
