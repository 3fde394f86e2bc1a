-- Renews the lease of the process that moves a queue, in the store that the queue leaves.
--
-- KEYS  own keys, and those of all contents (shared/moving.lua)
-- ARGV  1 label
-- Returns {'held', the contents as shared/moving.lua describes them}, or {'lost'} if the move has ended.
assert(#ARGV == 1, 'move_renew: 1 argument')
local OWN_KEYS = 5

local known, is_complete = read_move()
if known ~= tonumber(ARGV[1]) or not is_complete then
  return {'lost'}
end
-- Frees memory first, so that this works when the store is full.
redis.call('HDEL', call.moving, 't')
redis.call('HSET', call.moving, 't', decimal(call.now + MOVE_LEASE_US))
return {'held', unpack(moving_contents(OWN_KEYS))}
