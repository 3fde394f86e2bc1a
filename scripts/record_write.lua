-- Runs commands that change rows of a table, if all conditions on rows hold.
--
-- KEYS  1 rows (hash)    2 index by key (zset)    3 index by project (zset)    4 index by end (zset):
--       see crates/storage/src/redis/records.rs
-- ARGV  conditions and then changes, each of them: 1 'absent', 'begins' or 'fewer' for a condition,
--       'change'    2 bytes with which the reply must begin, or the number that it must be below
--       3 length of the command    4… the command, on one of the keys above
-- Returns {}; or {position of the first condition that does not hold, from 0; reply to its command},
--       and has changed nothing.
assert(#KEYS >= 4 and #ARGV > 3, 'record_write: 4 keys, 4 arguments and more')

local at, position = 1, 0
while at <= #ARGV do
  local kind, expected, last = ARGV[at], ARGV[at + 1], at + 2 + ARGV[at + 2]
  local found = redis.call(unpack(ARGV, at + 3, last))
  if kind == 'absent' and found
    or kind == 'begins' and (not found or string.sub(found, 1, #expected) ~= expected)
    or kind == 'fewer' and found >= tonumber(expected)
  then
    return {position, found}
  end
  at, position = last + 1, position + 1
end
return {}
