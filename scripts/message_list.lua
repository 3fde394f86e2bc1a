-- List messages of a queue behind a rank, oldest first.
--
-- KEYS  the queue's
-- ARGV  1 the rank    2 how many at most    3 the client whose own messages are left out, or nothing
--       4 'held' to list claimed messages too
-- Returns {'again'} when it was busy settling; {'page', now, key, record, hold, ...}; or, when it looked
--       at as many as one script should and all were left out, {'onward', the last rank looked at}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 4, 'message_list: the keys of the queue, 4 arguments')
local after, limit, not_from, with_held = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == 'held'
local CLIENT, CLIENT_END = 19, 34
local LOOKED_AT_MAX = 500
local WIDE = 50
local ITEMS = 3

if settle() then
  return {'again'}
end

-- The next keys behind a rank, of both sets if both are wanted: keys sort as ranks do.
local function next_keys(rank, width)
  local keys = redis.call('ZRANGEBYSCORE', ready, '(' .. rank, '+inf', 'LIMIT', 0, width)
  if with_held then
    for _, key in ipairs(redis.call('ZRANGEBYSCORE', held, '(' .. rank, '+inf', 'LIMIT', 0, width)) do
      keys[#keys + 1] = key
    end
    table.sort(keys)
    for i = #keys, width + 1, -1 do
      keys[i] = nil
    end
  end
  return keys
end

local page = {'page', decimal(now)}
local full = #page + ITEMS * limit
local looked_at, width, last = 0, limit, false
while #page < full and looked_at < LOOKED_AT_MAX and not last do
  local keys = next_keys(after, width)
  last = #keys < width
  local seen = {}
  show(seen, keys)
  for i = 1, #seen, ITEMS do
    local own = not_from ~= '' and string.sub(seen[i + 1], CLIENT, CLIENT_END) == not_from
    if not own and #page < full then
      for j = i, i + ITEMS - 1 do
        page[#page + 1] = seen[j]
      end
    end
  end
  looked_at = looked_at + #keys
  if #keys > 0 then
    after = decimal(rank_of(keys[#keys]))
  end
  width = math.max(limit, WIDE)
end
if #page == 2 and not last then
  return {'onward', after}
end
return page
