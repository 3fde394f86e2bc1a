-- Removes what a move has left in a store that does not have the queue. If the queue is not there, it
-- cannot be created under the label or an earlier epoch.
--
-- KEYS  own keys, and those of all contents (shared/moving.lua)
-- ARGV  1 label    2 how long the tombstone is kept (s)
-- Returns 'done'.
assert(#ARGV == 2, 'move_discard: 2 arguments')
local OWN_KEYS = 5
local label = tonumber(ARGV[1])

if read_move() ~= label then
  return 'done'
end
redis.call('DEL', call.moving)
remove_moving_contents(OWN_KEYS)
local ended = tonumber(redis.call('HGET', call.tombstone, 'v')) or 0
if redis.call('EXISTS', call.queue) == 0 and ended < label then
  redis.call('HSET', call.tombstone, 'v', decimal(label), 'c', redis.call('HGET', call.tombstone, 'c') or 0)
  redis.call('EXPIRE', call.tombstone, ARGV[2])
end
return 'done'
