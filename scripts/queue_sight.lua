-- See where a queue stands, with what is due settled.
--
-- KEYS  the queue's
-- Returns {'again'} when it was busy settling; else {'sight', now, the last rank that was visible, how many
--       messages are free, when the next delay or lease ends, 0 for never}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 0, 'queue_sight: the keys of the queue, no argument')

if settle() then
  return {'again'}
end
local next_lease = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
local next_delay = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local next_due = math.min(tonumber(next_lease) or math.huge, tonumber(next_delay) or math.huge)
local free = redis.call('ZCARD', ready)
return {'sight', decimal(now), decimal(last_rank()), free, next_due < math.huge and decimal(next_due) or 0}
