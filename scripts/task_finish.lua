-- Ends a running task early. A task that has ended stays as it is.
--
-- ARGV  1 id of the task    2 its new state    3 why it has failed, or empty
--       4 fence of the process that works on it, or empty if any process may end it
-- Returns 'done'.
assert(#ARGV == 4, 'task_finish: 4 arguments')

local task = read_running_task(ARGV[1])
if task and (ARGV[4] == '' or renew_task_lease(task.id, tonumber(ARGV[4]))) then
  finish_task(task, tonumber(ARGV[2]), ARGV[3])
end
return 'done'
