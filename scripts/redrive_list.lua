-- Lists the next messages of a redrive, or ends it if there are none and all that it moved have
-- left the outbox. Renews the lease of the task.
--
-- ARGV  1 id of the task    2 fence    3 maximum number of messages. The driver moves fewer if the
--       task has a limit or a pace
-- Returns {'due'} if due changes must be applied first; {'ended'} if the task is not running or
--       another process has its lease; {'waiting'} if the outbox must be forwarded first; or
--       {'next', record of the task, its cursor after these messages, their keys ...}.
assert(#ARGV == 3, 'redrive_list: 3 arguments')
local fence, limit = tonumber(ARGV[2]), tonumber(ARGV[3])

if load_queue() then
  return {'due'}
end
local task = read_running_task(ARGV[1])
if not task or not renew_task_lease(task.id, fence) then
  return {'ended'}
elseif redis.call('LLEN', call.outbox) > 0 then
  return {'waiting'}
elseif task.cursor >= task.last or task.moved >= task.limit then
  finish_task(task, TASK_DONE, '')
  return {'ended'}
end
local answer = {'next', redis.call('HGET', call.tasks, task.id), nil}
local bytes = 0
-- Adds a message to the answer, unless it does not fit.
local function try_add(entry)
  bytes = bytes + bytes_max(entry)
  if bytes > REPLY_BYTES_MAX and #answer > 3 then
    return false
  end
  answer[#answer + 1] = key_of(entry)
  return true
end

if task.id_count > 0 then
  local last = math.min(task.cursor + limit, task.last)
  local keys = split(string.sub(task.tail, task.cursor * KEY_BYTES + 1, last * KEY_BYTES), KEY_BYTES)
  local found = find_entries(keys, {call.ready})
  answer[3] = decimal(last)
  for i, key in ipairs(keys) do
    if found[key] and not try_add(found[key]) then
      answer[3] = decimal(task.cursor + i - 1)
      break
    end
  end
  return answer
end
local entries =
  redis.call('ZRANGEBYSCORE', call.ready, '(' .. decimal(task.cursor), decimal(task.last), 'LIMIT', 0, limit)
answer[3] = decimal(#entries == limit and rank_of(entries[limit]) or task.last)
for i, entry in ipairs(entries) do
  if not try_add(entry) then
    answer[3] = decimal(rank_of(entries[i - 1]))
    break
  end
end
return answer
