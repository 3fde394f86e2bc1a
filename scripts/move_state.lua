-- Reads how far the move of a queue is in this store.
--
-- Returns {'moves', label, 1 if the contents are complete else 0, 1 if the lease has expired else 0};
--       {'exists'} if the queue is there and does not move; or {'absent'}.
local label, is_complete, lease_ends_at = read_move()
if not label then
  return {redis.call('EXISTS', call.queue) == 1 and 'exists' or 'absent'}
end
return {'moves', decimal(label), is_complete and 1 or 0, is_lease_live(lease_ends_at, MOVE_LEASE_US) and 0 or 1}
