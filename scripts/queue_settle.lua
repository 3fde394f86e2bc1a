-- Reclaim what has ended or was deleted in a queue.
--
-- KEYS  the queue's
-- Returns 'absent' without a queue; 'again' if there may be more to do; else 'done'.
assert(#KEYS == QUEUE_KEYS and #ARGV == 0, 'queue_settle: the keys of the queue, no argument')

if redis.call('EXISTS', queue) == 0 then
  return 'absent'
end
local unsettled = settle()
local uncompacted = compact()
return (unsettled or uncompacted) and 'again' or 'done'
