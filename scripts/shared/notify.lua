-- Notifies waiters in all processes (storage/watch.rs) that this many messages have become available; with 0 that something
-- delayed or leased may be due sooner than they know. `position` is the lowest rank among messages that were available
-- before, if there are any: readers may have passed it.
local PUBLISH = redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH'

local function notify(available, position)
  -- The script's work is done even if its user may not publish to this channel.
  redis.pcall(PUBLISH, queue, position and available .. ' ' .. decimal(position) or available)
end
