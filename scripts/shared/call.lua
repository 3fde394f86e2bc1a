-- The call that runs: a new table for each call, so that nothing of one call reaches another.
--   queue, messages and so on
--         the keys of the function, by the names in queue.lua
--   keys  all its keys in their order
--   now   the time (µs) of the call
-- The other fields are what shared definitions load: state.lua, logical_time.lua, fair.lua, turns.lua,
-- delivery_signal.lua and sharding.lua describe theirs.
local call
