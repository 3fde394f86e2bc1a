-- Verifies the sizes of the keys of the copy of a queue, and records that it is complete.
--
-- KEYS  own keys, and those of all contents (shared/moving.lua)
-- ARGV  1 label; then for each key with contents its number, command for the size, size and remaining
--       lifetime (ms, or 0), in order
-- Returns {'complete'}; {'differs', number of the first key that has another size}; or {'lost'} if the
--       move has ended.
assert(#ARGV >= 1 and #ARGV % 4 == 1, 'move_complete: 1 argument, and 4 for each key')
local OWN_KEYS = 5

if read_move() ~= tonumber(ARGV[1]) then
  return {'lost'}
end
local at = 2
for i = 1, MOVED_KEYS do
  local key = moving_key(OWN_KEYS, i)
  local is_listed = tonumber(ARGV[at]) == i
  local command = size_command(key)
  local size = is_listed and tonumber(ARGV[at + 2]) or nil
  if command ~= (is_listed and ARGV[at + 1] or nil) or command and redis.call(command, key) ~= size then
    return {'differs', i}
  end
  if is_listed then
    if tonumber(ARGV[at + 3]) > 0 then
      redis.call('PEXPIRE', key, ARGV[at + 3])
    end
    at = at + 4
  end
end
redis.call('HSET', call.moving, 'c', 1, 't', decimal(call.now + MOVE_LEASE_US))
return {'complete'}
