-- Reads rows of a table.
--
-- KEYS  1 rows (hash)    2 index by key (zset)    3 index by project (zset)    4 index by end (zset):
--       see crates/storage/src/redis/records.rs
-- ARGV  for each query 5: number of the key above that it uses, then
--       for 1: key of the row, and 3 unused ones
--       for 2 and 3: first entry, last entry, maximum number of rows, length of what precedes keys
--       for 4: 2 unused ones, maximum number of rows that have ended, and an unused one
-- Returns the time (µs), then for each query the keys found, and their values, nil for no row.
assert(#KEYS >= 4 and #ARGV % 5 == 0, 'record_read: 4 keys, 5 arguments for each query')
local ROWS = '1'
local ENDS = '4'
local now = decimal(call.now)

local reply = {now}
for at = 1, #ARGV, 5 do
  local used, first, last, limit, before = unpack(ARGV, at, at + 4)
  local found = {first}
  if used == ENDS then
    found = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, limit)
  elseif used ~= ROWS then
    found = redis.call('ZRANGEBYLEX', KEYS[tonumber(used)], first, last, 'LIMIT', 0, limit)
    for i, entry in ipairs(found) do
      found[i] = string.sub(entry, before + 1)
    end
  end
  reply[#reply + 1], reply[#reply + 2] = found, query_in_chunks('HMGET', KEYS[1], found)
end
return reply
