-- Adds some values to a key of the copy of a queue. The values may be there already.
--
-- KEYS  1 moving (hash)    2 the key
-- ARGV  1 label    2 the command that adds values: HSET, ZADD or RPUSH    3 for RPUSH, the number of
--       values before these; then the values
-- Returns 'written', or 'lost' if the move has ended.
assert(#ARGV >= 4, 'move_write: 3 arguments and values')
local command, before = ARGV[2], tonumber(ARGV[3])

local known, is_complete = read_move()
if known ~= tonumber(ARGV[1]) or is_complete then
  return 'lost'
end
redis.call('HSET', call.moving, 't', decimal(call.now + MOVE_LEASE_US))
if command ~= 'RPUSH' or redis.call('LLEN', KEYS[2]) == before then
  for from = 4, #ARGV, VALUES_PER_CALL_MAX do
    redis.call(command, KEYS[2], unpack(ARGV, from, math.min(from + VALUES_PER_CALL_MAX - 1, #ARGV)))
  end
end
return 'written'
