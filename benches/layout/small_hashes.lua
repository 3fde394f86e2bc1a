-- Stores records in hashes of 64, by the number of the message in the queue.
local done = redis.call('HINCRBY', KEYS[1], 's', n) - n
local i = 1
while i <= n do
  local bucket = math.floor((done + i - 1) / 64)
  local fields = {}
  for j = i, math.min(n, (bucket + 1) * 64 - done) do
    fields[#fields + 1] = keys[j]
    fields[#fields + 1] = records[j]
  end
  redis.call('HSET', KEYS[5] .. bucket, unpack(fields))
  i = i + #fields / 2
end
