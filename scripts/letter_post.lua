-- Post dead letters from another queue, in order; those that have arrived before are passed over.
--
-- KEYS  the queue's, and the last number that it got from each queue (hash)
-- ARGV  1 the queue that they come from
--       then for each letter: its number, its nonce (5 bytes), its hold, its record
-- Returns 'posted', or 'absent' when there is no such queue.
assert(#KEYS == QUEUE_KEYS + 1 and #ARGV >= 5 and #ARGV % 4 == 1, 'letter_post: the keys of the queue and one, 1 argument and fours')
local letters, source = KEYS[QUEUE_KEYS + 1], ARGV[1]

if redis.call('EXISTS', queue) == 0 then
  return 'absent'
end
local last = tonumber(redis.call('HGET', letters, source)) or 0
local nonces, delays, records, seconds, new_holds = {}, {}, {}, {}, {}
for i = 2, #ARGV, 4 do
  local number = tonumber(ARGV[i])
  if number > last then
    last = number
    nonces[#nonces + 1] = ARGV[i + 1]
    delays[#delays + 1] = 0
    new_holds[#new_holds + 1] = ARGV[i + 2]
    seconds[#seconds + 1] = read_hold(ARGV[i + 2]).second
    records[#records + 1] = ARGV[i + 3]
  end
end
if #nonces > 0 then
  for i, key in ipairs(post(nonces, delays, records, seconds)) do
    redis.call('HSET', holds, key, new_holds[i])
  end
  redis.call('HSET', letters, source, decimal(last))
  redis.call('PERSIST', letters)
end
return 'posted'
