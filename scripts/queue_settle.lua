-- Reclaim what has ended or was deleted in a queue.
--
-- KEYS  the queue's
-- Returns 'absent' without a queue; 'again' if there may be more to do; else 'done'.
assert(#KEYS == 5 and #ARGV == 0, 'queue_settle: 5 keys, no argument')

if redis.call('EXISTS', queue) == 0 then
  return 'absent'
end
local unsettled = settle()
local uncompacted = compact()
return (unsettled or uncompacted) and 'again' or 'done'
