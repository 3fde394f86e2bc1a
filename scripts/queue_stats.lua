-- Count a queue's messages and show the first and the last of them.
--
-- KEYS  the queue's
-- Returns {'again'} when it was busy settling; {'stats', now, how many, how many of them claimed}, followed,
--       if there are any, by key, record and hold of the oldest one and the newest one.
assert(#KEYS == QUEUE_KEYS and #ARGV == 0, 'queue_stats: the keys of the queue, no argument')

if settle() then
  return {'again'}
end
-- The first or last message of both sets, each of which may be empty. Ranks are compared and not keys:
-- Lua compares text as the server's locale does.
local function pick(place, is_before)
  local free, claimed = redis.call('ZRANGE', ready, place, place)[1], redis.call('ZRANGE', held, place, place)[1]
  if free and claimed then
    return is_before(rank_of(free), rank_of(claimed)) and free or claimed
  end
  return free or claimed
end

local stats = {'stats', decimal(now), redis.call('HLEN', messages), redis.call('ZCARD', held)}
local oldest = pick(0, function(a, b) return a < b end)
if oldest then
  show(stats, {oldest})
  show(stats, {pick(-1, function(a, b) return a > b end)})
end
return stats
