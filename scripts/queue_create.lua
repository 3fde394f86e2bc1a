-- Creates a queue, under a version that its registration has given.
--
-- ARGV  1 the registration version    2 metadata    3 what scripts obey of it, or nothing
-- Returns {'created'}; {'existed'}; or {'ended', the version in the tombstone} when a deletion may have ended that registration: a
--       creation that comes late cannot leave a queue that is not registered. It needs a higher version.
assert(#ARGV == 3, 'queue_create: 3 arguments')
local version, metadata, rules = ARGV[1], ARGV[2], ARGV[3]

local own = redis.call('HGET', queue, 's')
if own == version then
  return {'created'}
elseif own then
  -- The name was registered again meanwhile: a deletion must find the version that the register has.
  if tonumber(own) < tonumber(version) then
    redis.call('HSET', queue, 's', version)
  end
  return {'existed'}
end
local deleted, last_number = unpack(redis.call('HMGET', tombstone, 'v', 'c'))
if deleted and tonumber(version) <= tonumber(deleted) then
  return {'ended', deleted}
end
last_visible = math.max((tonumber(last_number) or 0) + 1, now)
local first = decimal(last_visible)
redis.call('HSET', queue, 'm', metadata, 'v', first, 's', version, 'c', first, 'e', first)
keep_policy(rules)
return {'created'}
