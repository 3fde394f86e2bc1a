-- Gives a queue another location in the catalogue, if it still has the one that the caller knows. See
-- register.lua for the form of a registration.
--
-- KEYS  1 register of the project (zset)
-- ARGV  1 name of the queue    2 known registration, without the name and its zero byte
--       3 lowest version accepted    4 name of the pool, or empty for the virtual pool
-- Returns {version of the location that the queue has now, name of its pool or empty}, or {} if it is
--       not registered.
assert(#KEYS >= 1 and #ARGV == 4, 'place_replace: 1 key, 4 arguments')
local register, name, known, version, pool = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local registered = redis.call('ZRANGEBYLEX', register, '[' .. name .. '\0', '(' .. name .. '\1')[1]
if not registered then
  return {}
end
local digits, registered_pool = string.match(registered, '^(%d+)%z?(.*)$', #name + 2)
if string.sub(registered, #name + 2) ~= known then
  return {digits, registered_pool}
end
local text = string.format('%.0f', math.max(version, tonumber(digits) + 1))
redis.call('ZADD', register, 0, name .. '\0' .. text .. (pool == '' and '' or '\0' .. pool))
redis.call('ZREM', register, registered)
return {text, pool}
