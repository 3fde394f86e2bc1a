-- Counts a queue's messages, and shows the first and the last of them.
--
-- Returns {'due'} when something is due; otherwise {'stats', now, number of messages, available, delayed, in flight}, and if there
--       are any, the entries of the oldest and the newest one.
if load_queue() then
  return {'due'}
end
-- The first or last entry of the three sets. Ranks are compared instead of strings, because Lua compares strings as the server's
-- locale does.
local function pick(place, is_before)
  local picked
  for _, set in ipairs({ready, delayed, in_flight}) do
    local entry = redis.call('ZRANGE', set, place, place)[1]
    if entry and not (picked and is_before(rank_of(picked), rank_of(entry))) then
      picked = entry
    end
  end
  return picked
end

local stats = {'stats', decimal(now), redis.call('HLEN', messages)}
for _, set in ipairs({ready, delayed, in_flight}) do
  stats[#stats + 1] = redis.call('ZCARD', set)
end
local oldest = pick(0, function(a, b) return a < b end)
if oldest then
  stats[#stats + 1], stats[#stats + 2] = oldest, pick(-1, function(a, b) return a > b end)
end
return stats
