-- Ends the move of a queue in the store that has it from now on, under the epoch that follows the
-- label: the keys get their usual names. What is due is applied by the next visit.
--
-- KEYS  own keys, and those of all contents (shared/moving.lua)
-- ARGV  1 epoch
-- Returns 'done', or 'other' if there is no complete move with this label.
assert(#ARGV == 1, 'move_end: 1 argument')
local OWN_KEYS = 5
local epoch = tonumber(ARGV[1])

local known, is_complete = read_move()
if not is_complete or known + 1 ~= epoch or redis.call('EXISTS', call.queue) == 1 then
  return 'other'
end
redis.call('DEL', call.moving)
for i = 1, MOVED_KEYS do
  if redis.call('EXISTS', moving_key(OWN_KEYS, i)) == 1 then
    redis.call('RENAME', moving_key(OWN_KEYS, i), plain_key(OWN_KEYS, i))
  end
end
redis.call('HSET', call.queue, 's', decimal(epoch), 'a', decimal(epoch))
redis.call('ZADD', call.due, 'LT', 0, hash_tag())
return 'done'
