-- Register a name (of a queue with its project, or of a project with the store) under a version.
--
-- A registration is a member of a sorted set: the name, a zero byte and the version in decimal. All scores are 0, so members are in
-- the order of their names. A registration is removed only at the version that was read, so that a removal does not
-- undo a later registration.
--
-- KEYS  1 the register (zset)
-- ARGV  1 the name    2 'anew' to replace the registration of that name, 'confirm' to register it only where none is present
--       3 anew: the lowest version that is accepted; confirm: the version, 0 for a new one
-- Returns {the version under which the name is registered now, 1 if this call has registered it and else 0}.
assert(#KEYS == 1 and #ARGV == 3, 'register: 1 key, 3 arguments')
local register, name, mode, version = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local present = redis.call('ZRANGEBYLEX', register, '[' .. name .. '\0', '(' .. name .. '\1')
local highest = 0
for _, member in ipairs(present) do
  highest = math.max(highest, tonumber(string.sub(member, #name + 2)))
end
if mode == 'confirm' and present[1] then
  return {string.format('%.0f', highest), 0}
elseif mode == 'anew' or version == 0 then
  version = math.max(version, highest + 1, now)
end
local text = string.format('%.0f', version)
redis.call('ZADD', register, 0, name .. '\0' .. text)
if present[1] then
  redis.call('ZREM', register, unpack(present))
end
return {text, 1}
