-- Replace a queue's metadata, if it is as the caller has seen it.
--
-- KEYS  the queue's
-- ARGV  1 the revision seen    2 metadata    3 what scripts obey of it, or nothing
--       4 a token by which this update knows itself again
-- Returns {'again'} when it was busy settling; else {'done'} or {'stale'}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 4, 'queue_update: the keys of the queue, 4 arguments')
local seen, metadata, rules, token = unpack(ARGV)

local revision, last_update = unpack(redis.call('HMGET', queue, 'v', 'u'))
if last_update == token then
  return {'done'}
elseif revision ~= seen then
  return {'stale'}
end
-- What is visible when a queue becomes fair has no shard.
if divides(rules) and not fairness() and settle() then
  return {'again'}
end
redis.call('HSET', queue, 'm', metadata, 'v', decimal(next_number('v')), 'u', token)
keep_policy(rules)
return {'done'}
