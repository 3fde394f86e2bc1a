-- Begins the copy of a queue in the store that it moves to. Removes what earlier moves have left there.
--
-- KEYS  own keys, and those of all contents (shared/moving.lua)
-- ARGV  1 label
-- Returns 'begun'; 'late' if the store knows a later location of the queue; or 'occupied' if it still has
--       dead letters of an earlier queue of that name, or the queue itself.
assert(#ARGV == 1, 'move_begin: 1 argument')
local OWN_KEYS = 5
local label = tonumber(ARGV[1])

local known = read_move() or 0
local ended = tonumber(redis.call('HGET', call.tombstone, 'v')) or 0
if known == label then
  return 'begun'
elseif known > label or ended >= label then
  return 'late'
elseif redis.call('EXISTS', call.queue, call.outbox) > 0 then
  return 'occupied'
end
redis.call('DEL', call.moving)
remove_moving_contents(OWN_KEYS)
redis.call('HSET', call.moving, 'l', decimal(label), 't', decimal(call.now + MOVE_LEASE_US))
return 'begun'
