-- Replaces the quotas of a project in the list of all quotas.
--
-- KEYS  1 quotas (hash): project → its quotas (storage/quotas.rs); the empty field → the version of
--       the list
-- ARGV  1 project    2 its quotas, or empty to remove the project from the list
--       3 the new version of the list
-- Returns 'done'.
assert(#KEYS >= 1 and #ARGV == 3, 'quota_set: 1 key, 3 arguments')
local list, project, quotas, version = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if quotas == '' then
  redis.call('HDEL', list, project)
  redis.call('HSET', list, '', version)
else
  redis.call('HSET', list, project, quotas, '', version)
end
return 'done'
