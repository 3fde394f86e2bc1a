-- Tasks of the queue: `tasks` has a record of each (crates/storage/src/task_record.rs). At most one is
-- running.

-- Returns the task with this id, if it is running.
local function read_running_task(id)
  local record = redis.call('HGET', call.tasks, id)
  if record and string.byte(record) == TASK_RUNNING then
    local task = {id = id}
    task.state, task.created, task.selected, task.moved, task.skipped, task.cursor, task.last, task.limit,
      task.per_second, task.id_count, task.tail_at = struct.unpack(TASK, record)
    task.tail = string.sub(record, task.tail_at)
    return task
  end
end

-- Returns the running task, if there is one.
local function find_running_task()
  for _, id in ipairs(redis.call('HKEYS', call.tasks)) do
    local task = read_running_task(id)
    if task then
      return task
    end
  end
end

local function store_task(task)
  -- Frees memory before anything grows, so that this works when the store is full.
  redis.call('HDEL', call.tasks, task.id)
  redis.call('HSET', call.tasks, task.id, struct.pack(TASK, task.state, task.created, task.selected, task.moved,
    task.skipped, task.cursor, task.last, task.limit, task.per_second, task.id_count) .. task.tail)
end

-- Ends a running task. `error` says why it has failed, and is empty otherwise.
local function finish_task(task, state, error)
  task.state, task.tail = state, error
  store_task(task)
  redis.call('HDEL', call.task_leases, task.id)
end
