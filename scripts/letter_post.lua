-- Post dead letters from another queue, in order; those that have arrived before are passed over.
--
-- KEYS  the queue's, and the last number that it got from each queue (hash)
-- ARGV  1 the queue that they come from
--       2 for which division of a fair queue the shards below were drawn (see policy.lua), or nothing
--       then for each letter: its number, its nonce (5 bytes), its hold, its record, the shards that its tenant has drawn
-- Returns {'posted'}; {'absent'} when there is no such queue; or {'fair', number of shards, number of a tenant's} with nothing posted
--       when the shards have to be drawn for another division.
assert(#KEYS == QUEUE_KEYS + 1 and #ARGV >= 7 and #ARGV % 5 == 2, 'letter_post: the keys of the queue and one, 2 arguments and fives')
local letters, source = KEYS[QUEUE_KEYS + 1], ARGV[1]

if redis.call('EXISTS', queue) == 0 then
  return {'absent'}
end
local divided = fairness()
if divided and divided.count > 1 and struct.pack('>I2I2', divided.count, divided.per_tenant) ~= ARGV[2] then
  return {'fair', divided.count, divided.per_tenant}
end
local last = tonumber(redis.call('HGET', letters, source)) or 0
local nonces, delays, records, seconds, new_holds, lots = {}, {}, {}, {}, {}, {}
for i = 3, #ARGV, 5 do
  local number = tonumber(ARGV[i])
  if number > last then
    last = number
    nonces[#nonces + 1] = ARGV[i + 1]
    delays[#delays + 1] = 0
    new_holds[#new_holds + 1] = ARGV[i + 2]
    seconds[#seconds + 1] = read_hold(ARGV[i + 2]).second
    records[#records + 1] = ARGV[i + 3]
    lots[#records] = divided and divided.count > 1 and shards_in(ARGV[i + 4]) or nil
  end
end
if #nonces > 0 then
  for i, key in ipairs(post(nonces, delays, records, seconds, lots)) do
    redis.call('HSET', holds, key, new_holds[i])
  end
  redis.call('HSET', letters, source, decimal(last))
  redis.call('PERSIST', letters)
end
return {'posted'}
