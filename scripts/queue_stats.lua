-- Count a queue's messages and show the first and the last of them.
--
-- KEYS  the queue's
-- Returns {'again'} when it was busy settling; {'stats', now, how many, how many of them claimed}, followed,
--       if there are any, by key, record and hold of the oldest one and the newest one.
assert(#KEYS == QUEUE_KEYS and #ARGV == 0, 'queue_stats: the keys of the queue, no argument')

if settle() then
  return {'again'}
end
-- The first or last message of the three sets, each of which may be empty. Ranks are compared and not
-- keys: Lua compares text as the server's locale does.
local function pick(place, is_before)
  local picked
  for _, set in ipairs({ready, delayed, held}) do
    local key = redis.call('ZRANGE', set, place, place)[1]
    if key and not (picked and is_before(rank_of(picked), rank_of(key))) then
      picked = key
    end
  end
  return picked
end

local stats = {'stats', decimal(now), redis.call('HLEN', messages), redis.call('ZCARD', held)}
local oldest = pick(0, function(a, b) return a < b end)
if oldest then
  show(stats, load({oldest}))
  show(stats, load({pick(-1, function(a, b) return a > b end)}))
end
return stats
