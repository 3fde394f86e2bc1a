-- Drop the dead letters from a queue's outbox that have arrived.
--
-- KEYS  the queue's
-- ARGV  1 the number of the last one that has arrived    2 how many there are at most
-- Returns how many letters are left.
assert(#KEYS == QUEUE_KEYS and #ARGV == 2, 'letter_drop: the keys of the queue, 2 arguments')
local last, count_max = tonumber(ARGV[1]), tonumber(ARGV[2])

for _ = 1, count_max do
  local letter = redis.call('LINDEX', outbox, 0)
  if not letter or struct.unpack('>I8', letter) > last then
    break
  end
  redis.call('LPOP', outbox)
end
return redis.call('LLEN', outbox)
