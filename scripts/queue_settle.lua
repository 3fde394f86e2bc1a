-- Reclaim what has ended or was deleted in a queue.
--
-- KEYS  the queue's
-- Returns 'absent' without a queue, 'again' if there may be more to do, else 'done'; and how many dead letters
--       wait to be delivered.
assert(#KEYS == QUEUE_KEYS and #ARGV == 0, 'queue_settle: the keys of the queue, no argument')

if redis.call('EXISTS', queue) == 0 then
  return {'absent', redis.call('LLEN', outbox)}
end
local unsettled = settle()
local uncompacted = compact()
if not fairness() then
  redis.call('HDEL', queue, 'f')
end
return {(unsettled or uncompacted) and 'again' or 'done', redis.call('LLEN', outbox)}
