-- Removes delivered dead letters from a queue's outbox.
--
-- ARGV  1 number of the last dead letter that was delivered    2 maximum number to remove
-- Returns the number of dead letters that are left.
assert(#ARGV == 2, 'dead_letter_drop: 2 arguments')
local last, count_max = tonumber(ARGV[1]), tonumber(ARGV[2])

for _ = 1, count_max do
  local dead_letter = redis.call('LINDEX', call.outbox, 0)
  if not dead_letter or struct.unpack('>I8', dead_letter) > last then
    break
  end
  redis.call('LPOP', call.outbox)
end
return redis.call('LLEN', call.outbox)
