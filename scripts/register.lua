-- Registers a name under a version: a queue with its project, or a project with the store.
--
-- A registration is a member of a sorted set: the name, a zero byte and the version in decimal; if
-- the queue is in a pool, also a zero byte and the name of the pool. All scores are 0, so members
-- are in the order of their names. A registration is removed only at the version that was read, so
-- that a removal does not undo a later registration.
--
-- KEYS  1 register (zset)
-- ARGV  1 name
--       2 'replace' to replace a registration of the name, unless it names a pool; 'if_absent' to
--       register it only if there is none; 'exactly' to register it under this version, unless
--       there is a higher one
--       3 replace, or with a pool: lowest version accepted; if_absent: the version, 0 for a new one;
--       exactly: the version
--       4 name of the pool, or empty
-- Returns {version under which the name is registered now, 1 if this call has registered it, else
--       0; name of the pool in the registration, or empty}.
assert(#KEYS >= 1 and #ARGV == 4, 'register: 1 key, 4 arguments')
local register, name, mode, version, pool = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local registered = redis.call('ZRANGEBYLEX', register, '[' .. name .. '\0', '(' .. name .. '\1')
local highest, registered_pool = 0, ''
for _, member in ipairs(registered) do
  local digits, pool_of_member = string.match(member, '^(%d+)%z?(.*)$', #name + 2)
  if tonumber(digits) > highest then
    highest, registered_pool = tonumber(digits), pool_of_member
  end
end
local is_kept = registered[1]
  and (mode == 'if_absent' or mode == 'replace' and registered_pool ~= '' or mode == 'exactly' and highest > version)
if is_kept then
  return {string.format('%.0f', highest), 0, registered_pool}
elseif mode == 'replace' or pool ~= '' or version == 0 then
  version = math.max(version, highest + 1, call.now)
end
local member = name .. '\0' .. string.format('%.0f', version)
if pool ~= '' then
  member = member .. '\0' .. pool
end
redis.call('ZADD', register, 0, member)
for _, other in ipairs(registered) do
  if other ~= member then
    redis.call('ZREM', register, other)
  end
end
return {string.format('%.0f', version), 1, pool}
