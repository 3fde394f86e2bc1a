-- Lists names of values with bodies after a place: keys of messages, in the order of their ranks, or
-- names of retries. There are fewer than requested if the values would be too large for one reply.
--
-- ARGV  1 'messages' or 'retries'    2 the last place: a rank, or an entry of retry_times; empty at
--       the beginning    3 maximum number of names
-- Returns {place to continue from or empty at the end, names ...}.
assert(#ARGV == 3, 'sealed_list: 3 arguments')
local part, after, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
-- Bytes of the time in an entry of retry_times, between subscription and key.
local TIME_BYTES = 8

local hash = part == 'messages' and call.messages or call.retries
local found = {}
if part == 'messages' then
  for _, set in ipairs({call.ready, call.in_flight, call.delayed}) do
    local from = after == '' and '-inf' or '(' .. after
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set, from, '+inf', 'LIMIT', 0, limit)) do
      found[#found + 1] = {place = rank_of(entry), name = key_of(entry)}
    end
  end
  -- The ranks are compared as numbers, because Lua compares strings in the server's locale.
  table.sort(found, function(one, other)
    return one.place < other.place
  end)
else
  local from = after == '' and '-' or '(' .. after
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', call.retry_times, from, '+', 'LIMIT', 0, limit)) do
    local name = string.sub(entry, 1, ID_BYTES) .. string.sub(entry, ID_BYTES + TIME_BYTES + 1)
    found[#found + 1] = {place = entry, name = name}
  end
end
local names, bytes, place = {}, 0, ''
for i, one in ipairs(found) do
  bytes = bytes + redis.call('HSTRLEN', hash, one.name)
  if i > limit or bytes > REPLY_BYTES_MAX and i > 1 then
    return {place, unpack(names)}
  end
  names[i] = one.name
  place = part == 'messages' and decimal(one.place) or one.place
end
return {#found < limit and '' or place, unpack(names)}
