-- Creates a task, unless one is running in the queue. If there are too many tasks, removes the
-- oldest.
--
-- ARGV  1 id of the new task, which identifies a retry of this call    2 its record, in which the
--       script fills in the time of creation and, unless it has ids, the messages that it covers
--       3 maximum number of tasks
-- Returns {'due'} if due changes must be applied first; {'absent'} if the queue does not exist;
--       {'running', id of the running task}; or {'created', record}.
assert(#ARGV == 3, 'task_create: 3 arguments')
local id, record, count_max = ARGV[1], ARGV[2], tonumber(ARGV[3])

local is_due = load_queue()
if not call.revision then
  return {'absent'}
elseif redis.call('HEXISTS', call.tasks, id) == 1 then
  return {'created', redis.call('HGET', call.tasks, id)}
elseif is_due then
  return {'due'}
end
local records, count, oldest, oldest_at = redis.call('HGETALL', call.tasks), 0, nil, math.huge
for i = 1, #records, 2 do
  local state, created = struct.unpack(TASK, records[i + 1])
  if state == TASK_RUNNING then
    return {'running', records[i]}
  end
  count = count + 1
  if created < oldest_at then
    oldest, oldest_at = records[i], created
  end
end
if count >= count_max then
  redis.call('HDEL', call.tasks, oldest)
end
redis.call('HSET', call.tasks, id, record)
local task = read_running_task(id)
task.created = call.now
if task.id_count == 0 then
  task.selected, task.last = redis.call('HLEN', call.messages) - redis.call('ZCARD', call.delayed), call.last_visible
end
store_task(task)
add_task_lease(id)
return {'created', redis.call('HGET', call.tasks, id)}
