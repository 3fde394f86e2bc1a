-- Replaces the list of pools and flavors, unless another process has.
--
-- KEYS  1 pools (hash): `version`, `list` (storage/pools.rs)
-- ARGV  1 the last known version, empty if there was no list    2 the new version    3 the new list
-- Returns {'replaced'}, also if this call already did; or {'changed'}.
assert(#KEYS >= 1 and #ARGV == 3, 'pools_replace: 1 key, 3 arguments')
local pools, known, new, list = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local version = redis.call('HGET', pools, 'version') or ''
if version == new then
  return {'replaced'}
elseif version ~= known then
  return {'changed'}
end
redis.call('HSET', pools, 'version', new, 'list', list)
return {'replaced'}
