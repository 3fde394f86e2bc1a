-- Count a queue's messages and show the first and the last of them.
--
-- KEYS  the queue's
-- Returns {'again'} when it was busy settling; {'stats', now, how many}, followed, if there are any, by
--       the oldest one's key and record and the newest one's.
assert(#KEYS == 5 and #ARGV == 0, 'queue_stats: 5 keys, no argument')

if settle() then
  return {'again'}
end
local stats = {'stats', decimal(now), redis.call('HLEN', messages)}
for _, place in ipairs({0, -1}) do
  local key = redis.call('ZRANGE', ready, place, place)[1]
  if key then
    stats[#stats + 1] = key
    stats[#stats + 1] = redis.call('HGET', messages, key)
  end
end
return stats
