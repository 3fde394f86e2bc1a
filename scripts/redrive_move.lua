-- Moves messages of a redrive to the outbox, and records its progress in the same step. The other
-- messages that its cursor passes are skipped.
--
-- ARGV  1 id of the task    2 fence    3 its cursor, which identifies a retry of this call
--       4 its cursor after this step
--       then for each message to move: its key; its target (shared/dead_letters.lua)
-- Returns {'due'} if due changes must be applied first; {'ended'} if the task is not running or
--       another process has its lease; or {'moved', number of messages}.
assert(#ARGV >= 4 and #ARGV % 2 == 0, 'redrive_move: 4 arguments, and 2 for each message')
local fence, cursor, next_cursor = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

if load_queue() then
  return {'due'}
end
local task = read_running_task(ARGV[1])
if not task or not renew_task_lease(task.id, fence) then
  return {'ended'}
elseif task.cursor ~= cursor then
  return {'moved', 0}
end
local keys = {}
for i = 5, #ARGV, 2 do
  keys[#keys + 1] = ARGV[i]
end
local found = find_entries(keys, {call.ready})
local entries, targets = {}, {}
for i, key in ipairs(keys) do
  if found[key] then
    entries[#entries + 1], targets[#targets + 1] = found[key], ARGV[2 * i + 4]
  end
end
move_to_outbox(entries, nil, targets)
local passed
if task.id_count > 0 then
  passed = next_cursor - cursor - #entries
else
  local first, last = '(' .. decimal(cursor), decimal(next_cursor)
  passed = redis.call('ZCOUNT', call.ready, first, last) + redis.call('ZCOUNT', call.in_flight, first, last)
end
task.cursor, task.moved, task.skipped = next_cursor, task.moved + #entries, task.skipped + passed
store_task(task)
return {'moved', #entries}
