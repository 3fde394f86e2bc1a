-- Registers a name under a version: a queue with its project, or a project with the store.
--
-- A registration is a member of a sorted set: the name, a zero byte and the version in decimal. All
-- scores are 0, so members are in the order of their names. A registration is removed only at the
-- version that was read, so that a removal does not undo a later registration.
--
-- KEYS  1 register (zset)
-- ARGV  1 name    2 'replace' to replace a registration of the name, 'if_absent' to register it
--       only if there is none
--       3 replace: lowest version accepted; if_absent: the version, 0 for a new one
-- Returns {version under which the name is registered now, 1 if this call has registered it, else
--       0}.
assert(#KEYS == 1 and #ARGV == 3, 'register: 1 key, 3 arguments')
local register, name, mode, version = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local registered = redis.call('ZRANGEBYLEX', register, '[' .. name .. '\0', '(' .. name .. '\1')
local highest = 0
for _, member in ipairs(registered) do
  highest = math.max(highest, tonumber(string.sub(member, #name + 2)))
end
if mode == 'if_absent' and registered[1] then
  return {string.format('%.0f', highest), 0}
elseif mode == 'replace' or version == 0 then
  version = math.max(version, highest + 1, now)
end
local text = string.format('%.0f', version)
redis.call('ZADD', register, 0, name .. '\0' .. text)
if registered[1] then
  redis.call('ZREM', register, unpack(registered))
end
return {text, 1}
