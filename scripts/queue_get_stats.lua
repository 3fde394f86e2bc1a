-- Counts a queue's messages, and returns the oldest and the newest one.
--
-- Returns {'due'} if due changes must be applied first; otherwise {'stats', now, whether the queue exists
--       (0 or 1), numbers of all, available, delayed and in-flight messages, and, if there are any, the
--       entries of the oldest and newest one}.
if load_queue() then
  return {'due'}
end
-- Returns the first or last entry of the three sets. It compares ranks and not strings, because Lua
-- compares strings in the server's locale.
local function outermost_entry(index, is_before)
  local found
  for _, set in ipairs({call.ready, call.delayed, call.in_flight}) do
    local entry = redis.call('ZRANGE', set, index, index)[1]
    if entry and not (found and is_before(rank_of(found), rank_of(entry))) then
      found = entry
    end
  end
  return found
end

local stats = {'stats', decimal(call.now), call.revision and 1 or 0, redis.call('HLEN', call.messages)}
for _, set in ipairs({call.ready, call.delayed, call.in_flight}) do
  stats[#stats + 1] = redis.call('ZCARD', set)
end
local oldest = outermost_entry(0, function(a, b) return a < b end)
if oldest then
  stats[#stats + 1], stats[#stats + 2] = oldest, outermost_entry(-1, function(a, b) return a > b end)
end
return stats
