-- Drops the dead letters from a queue's outbox that have arrived.
--
-- ARGV  1 the number of the last one that has arrived    2 the maximum number to drop
-- Returns how many dead letters are left.
assert(#ARGV == 2, 'dead_letter_drop: 2 arguments')
local last, count_max = tonumber(ARGV[1]), tonumber(ARGV[2])

for _ = 1, count_max do
  local letter = redis.call('LINDEX', outbox, 0)
  if not letter or struct.unpack('>I8', letter) > last then
    break
  end
  redis.call('LPOP', outbox)
end
return redis.call('LLEN', outbox)
