-- Tells those who wait for messages of the queue, in whatever process (storage/watch.rs): so many have become free.
-- With 0 something is delayed or leased that may be due sooner than what they know of.
local PUBLISH = redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH'

local function tell(freed)
  -- What the script is for is not undone because nobody may be told: this user's rules may not allow the channel.
  redis.pcall(PUBLISH, queue, freed)
end
