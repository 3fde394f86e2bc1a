-- Lists messages of a queue after a rank, oldest first; or before a rank, newest first.
--
-- A page is shorter than requested if its records are too large for one reply, or if the script has
-- examined the maximum number of entries.
--
-- ARGV  1 rank    2 maximum number of messages    3 poster whose messages are left out, or empty
--       4 'claimed' to include messages in flight, else empty
--       5 'delayed' to include delayed messages if the queue delays messages, else empty
--       6 'newest' to list the newest messages first, else empty
-- Returns {'due'} if due changes must be applied first; otherwise {'page', now, whether the queue
--       delays messages (0 or 1), whether it is fair (0 or 1), whether no message follows the page
--       (0 or 1), rank of the last entry examined, entries ...}. If all messages of the page were
--       never claimed, their entries are one string.
assert(#ARGV == 6, 'message_list: 6 arguments')
local after, limit, excluded_poster = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local include_claimed, include_delayed = ARGV[4] == 'claimed', ARGV[5] == 'delayed'
local newest_first = ARGV[6] == 'newest'
local EXAMINED_MAX = 1000
local SCAN_WIDTH = 250

if load_queue() then
  return {'due'}
end
local delays = read_policy().delays
local sets = {call.ready}
if include_claimed then
  sets[#sets + 1] = call.in_flight
end
-- A queue may hold delayed messages from before its delays were turned off. They are not part of
-- its feed, because the links of such a queue have `include_delayed=true` for every reader.
if include_delayed and delays then
  sets[#sets + 1] = call.delayed
end

-- Merges two lists of entries in their order, up to this width. It compares ranks and not strings,
-- because Lua compares strings in the server's locale.
local function merge(one, other, width)
  local entries, i, j = {}, 1, 1
  while #entries < width and (one[i] or other[j]) do
    if one[i] and not (other[j] and (rank_of(other[j]) < rank_of(one[i])) ~= newest_first) then
      entries[#entries + 1] = one[i]
      i = i + 1
    else
      entries[#entries + 1] = other[j]
      j = j + 1
    end
  end
  return entries
end

local command, last_score = 'ZRANGEBYSCORE', '+inf'
if newest_first then
  command, last_score = 'ZREVRANGEBYSCORE', '-inf'
end
local page, listed, bytes = {}, 0, 0
local examined, width = 0, limit
local is_last, is_full = false, false
while not is_last and not is_full and examined < EXAMINED_MAX do
  local entries
  for _, set in ipairs(sets) do
    local found = redis.call(command, set, '(' .. after, last_score, 'LIMIT', '0', width)
    entries = entries and merge(entries, found, width) or found
  end
  local last = false
  for _, entry in ipairs(entries) do
    if excluded_poster == '' or string.sub(entry, POSTER + 1, SIZE) ~= excluded_poster then
      bytes = bytes + bytes_max(entry)
      if listed == limit or (listed > 0 and bytes > REPLY_BYTES_MAX) then
        is_full = true
        break
      end
      listed = listed + 1
      page[listed] = entry
    end
    last = entry
  end
  if last then
    after = decimal(rank_of(last))
  end
  is_last = not is_full and #entries < width
  is_full = is_full or listed == limit
  examined = examined + #entries
  width = math.min(SCAN_WIDTH, EXAMINED_MAX - examined)
end
-- One string costs the service less than many. No entry is shorter than that of a message that was
-- never claimed, so all entries have that length if their sum is right.
local joined = table.concat(page)
if #joined == listed * FRESH_BYTES then
  page = {joined}
end
-- A queue that is no longer fair by its metadata stays fair until its shards are empty.
local serves_shards = call.fairness_packed
  and (string.sub(call.fairness_packed, 1, 2) ~= '\0\1' or redis.call('EXISTS', call.shards) == 1)
return {
  'page', decimal(call.now), delays and 1 or 0, serves_shards and 1 or 0, is_last and 1 or 0, after, unpack(page),
}
