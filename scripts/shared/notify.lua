-- Notifies waiters in all processes (storage/watch.rs) that this number of messages became
-- available. The number 0 says that a delay or lease may end sooner than the waiters know.
-- `position` is the lowest rank among messages that were available before, if there are any,
-- because readers may have passed it. The channel is a sharded one, which concerns one node of a
-- cluster.
local function notify(available, position)
  -- The call must not fail the script if its user may not publish to this channel: the changes are
  -- already made.
  redis.pcall('SPUBLISH', call.queue, position and available .. ' ' .. decimal(position) or available)
end
