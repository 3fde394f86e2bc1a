-- Task leases: at any time, at most one process works on a task. `task_leases` has the lease of
-- each running task (lease.lua).

-- Adds the lease of a new task. The janitor finds it if no process takes it.
local function add_task_lease(task)
  store_lease(call.task_leases, task, 0, 0, NO_CLAIM)
  redis.call('ZADD', call.due, 'LT', decimal(call.now), hash_tag())
end

-- Takes a lease and returns its fence; nothing if another holder has it or the task has ended.
local function take_task_lease(task, holder)
  return take_lease(call.task_leases, task, holder, TASK_LEASE_US)
end

-- Renews a lease, and returns whether it has this fence.
local function renew_task_lease(task, fence)
  return renew_lease(call.task_leases, task, fence, TASK_LEASE_US)
end

-- Returns the time (µs) when a lease expires first, now if one has expired; and a task whose lease
-- has expired, or an empty text.
local function first_task_lease()
  local first, expired = math.huge, ''
  local leases_by_task = redis.call('HGETALL', call.task_leases)
  for i = 1, #leases_by_task, 2 do
    local _, expires_at = struct.unpack(LEASE, leases_by_task[i + 1])
    if not is_lease_live(expires_at, TASK_LEASE_US) then
      expires_at, expired = call.now, leases_by_task[i]
    end
    first = math.min(first, expires_at)
  end
  return first, expired
end
