-- Replace a queue's metadata, if it is as the caller has seen it.
--
-- KEYS  the queue's
-- ARGV  1 the revision seen    2 metadata    3 a token by which this update knows itself again
-- Returns 'done' or 'stale'.
assert(#KEYS == QUEUE_KEYS and #ARGV == 3, 'queue_update: the keys of the queue, 3 arguments')
local seen, metadata, token = unpack(ARGV)

local revision, last_update = unpack(redis.call('HMGET', queue, 'v', 'u'))
if last_update == token then
  return 'done'
elseif revision ~= seen then
  return 'stale'
end
revision = decimal(next_rank())
redis.call('SET', counter, revision)
redis.call('HSET', queue, 'm', metadata, 'v', revision, 'u', token)
return 'done'
