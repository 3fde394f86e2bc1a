-- Takes the lease of a task (shared/task_lease.lua).
--
-- ARGV  1 id of the task    2 holder, in 16 bytes
-- Returns the fence; or nothing if another holder has the lease or the task has ended.
assert(#ARGV == 2, 'task_lease: 2 arguments')

local fence = take_task_lease(ARGV[1], ARGV[2])
return fence and decimal(fence)
