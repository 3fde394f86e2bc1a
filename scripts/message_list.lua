-- List messages of a queue behind a rank, oldest first.
--
-- KEYS  the queue's
-- ARGV  1 the rank    2 how many at most    3 the client whose own messages are left out, or nothing
-- Returns {'again'} when it was busy settling; {'page', now, key, record, ...}; or, when it looked at
--       as many as one script should and all were left out, {'onward', the last rank looked at}.
assert(#KEYS == 5 and #ARGV == 3, 'message_list: 5 keys, 3 arguments')
local after, limit, not_from = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local CLIENT, CLIENT_END = 19, 34
local LOOKED_AT_MAX = 500
local WIDE = 50

if settle() then
  return {'again'}
end

local page = {'page', decimal(now)}
local looked_at = 0
local width = limit
repeat
  local keys = redis.call('ZRANGEBYSCORE', ready, '(' .. after, '+inf', 'LIMIT', 0, width)
  if #keys == 0 then
    return page
  end
  local records = redis.call('HMGET', messages, unpack(keys))
  for i, key in ipairs(keys) do
    local own = not_from ~= '' and string.sub(records[i], CLIENT, CLIENT_END) == not_from
    if not own and #page < 2 + 2 * limit then
      page[#page + 1] = key
      page[#page + 1] = records[i]
    end
  end
  looked_at = looked_at + #keys
  after = decimal(struct.unpack('>I8', '\0' .. keys[#keys]))
  local last = #keys < width
  width = math.max(limit, WIDE)
until #page == 2 + 2 * limit or looked_at >= LOOKED_AT_MAX or last
if #page == 2 and looked_at >= LOOKED_AT_MAX then
  return {'onward', after}
end
return page
