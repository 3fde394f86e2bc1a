-- Creates a queue under the version of its registration.
--
-- A deletion may have ended that registration in the meantime. Then the creation is refused and
-- needs a higher version, so a late creation cannot leave a queue that is not registered.
--
-- ARGV  1 registration version    2 metadata    3 packed policy (shared/policy.lua), or empty
-- Returns {'created'}; {'existed'}; or {'ended', version in the tombstone}. Fails with NOQUEUE if a move
--       of the queue must be ended or undone first.
assert(#ARGV == 3, 'queue_create: 3 arguments')
local version, metadata, policy = ARGV[1], ARGV[2], ARGV[3]

local own, moved_here = unpack(redis.call('HMGET', call.queue, 's', 'a'))
if own == version then
  -- This is a retry, unless the queue has got this version by moving here.
  return {moved_here == version and 'existed' or 'created'}
elseif own then
  -- The name was registered again in the meantime. A deletion must find the version that is in the
  -- register.
  if tonumber(own) < tonumber(version) then
    redis.call('HSET', call.queue, 's', version)
  end
  return {'existed'}
end
if redis.call('EXISTS', call.moving) == 1 then
  return redis.error_reply('NOQUEUE the queue moves')
end
local deleted, last_number = unpack(redis.call('HMGET', call.tombstone, 'v', 'c'))
if deleted and tonumber(version) <= tonumber(deleted) then
  return {'ended', deleted}
end
-- In a pool, the version is also above all numbers that the queue has assigned in other pools.
call.last_visible = math.max((tonumber(last_number) or 0) + 1, tonumber(version), call.now)
local first = decimal(call.last_visible)
redis.call('HSET', call.queue, 'm', metadata, 'v', first, 's', version, 'e', first,
  'c', struct.pack(FEED_STATE, call.last_visible, 0))
store_policy(policy)
return {'created'}
