-- Pop the oldest free messages of a queue, fewer than wanted where the answer would grow too large: hand them
-- out and delete them in one step.
--
-- KEYS  the queue's
-- ARGV  1 how many at most
-- Returns {'again'} when it was busy settling, with nothing popped; else {'popped', now, key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'message_pop: the keys of the queue, 1 argument')
local limit = tonumber(ARGV[1])

if settle() then
  return {'again'}
end
local popped = {'popped', decimal(now)}
local keys = fitting(redis.call('ZRANGE', ready, 0, limit - 1))
show(popped, keys)
remove(keys)
compact()
return popped
