-- Pauses a queue in the store that it leaves: renames all its keys, in a time that does not depend on
-- the number of messages. Removes what earlier moves have left.
--
-- KEYS  own keys, and those of all contents (shared/moving.lua)
-- ARGV  1 label
-- Returns {'frozen', the contents as shared/moving.lua describes them}; {'absent'} if the queue does
--       not exist; or {'late'} if the store knows a later location of the queue.
assert(#ARGV == 1, 'move_freeze: 1 argument')
local OWN_KEYS = 5
local label = tonumber(ARGV[1])

local known, is_complete = read_move()
local version = tonumber(redis.call('HGET', call.queue, 's'))
if known and known > label or version and version > label then
  return {'late'}
elseif version then
  -- Renaming comes first, because a full store refuses commands that need memory unless the script has
  -- written before.
  redis.call('ZREM', call.due, hash_tag())
  remove_moving_contents(OWN_KEYS)
  for i = 1, MOVED_KEYS do
    if redis.call('EXISTS', plain_key(OWN_KEYS, i)) == 1 then
      redis.call('RENAME', plain_key(OWN_KEYS, i), moving_key(OWN_KEYS, i))
    end
  end
elseif not (is_complete and (known == label or known + 1 == label)) then
  -- A complete queue with the label before was paused by a process that has lost its turn to this one.
  return {'absent'}
end
redis.call('HDEL', call.moving, 'l')
redis.call('HSET', call.moving, 'l', decimal(label), 'c', 1, 't', decimal(call.now + MOVE_LEASE_US))
return {'frozen', unpack(moving_contents(OWN_KEYS))}
