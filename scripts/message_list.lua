-- Lists messages of a queue behind a rank, oldest first.
--
-- ARGV  1 the rank    2 the maximum number of messages    3 the poster whose messages are left out, or nothing
--       4 'claimed' to list messages in flight too    5 'delayed' to list those too that are not due yet, if the queue delays messages
-- Returns {'due'} when something is due; otherwise {'page', now, whether the queue delays messages (0 or 1), whether it is fair,
--       whether nothing is left behind the page, the last rank examined, entries ...}. A page is shorter than wanted where its
--       records would be too large for one answer, or the script has examined as many entries as one may.
assert(#ARGV == 5, 'message_list: 5 arguments')
local after, limit, not_from = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local with_claimed, with_delayed = ARGV[4] == 'claimed', ARGV[5] == 'delayed'
local EXAMINED_MAX = 1000
local WIDE = 250

if load_queue() then
  return {'due'}
end
local delays = policy().delays
local sets = {ready}
if with_claimed then
  sets[#sets + 1] = in_flight
end
-- What a queue that delays no more has left undue is no part of its feed: links there name the peek to everybody.
if with_delayed and delays then
  sets[#sets + 1] = delayed
end

-- Merges two lists of entries in the order of their ranks, up to this width. Ranks are compared instead of strings, because Lua
-- compares strings as the server's locale does.
local function merged(one, other, width)
  local entries, i, j = {}, 1, 1
  while #entries < width and (one[i] or other[j]) do
    if one[i] and not (other[j] and rank_of(other[j]) < rank_of(one[i])) then
      entries[#entries + 1] = one[i]
      i = i + 1
    else
      entries[#entries + 1] = other[j]
      j = j + 1
    end
  end
  return entries
end

local function entries_behind(rank, width)
  local entries
  for _, set in ipairs(sets) do
    local found = redis.call('ZRANGEBYSCORE', set, '(' .. rank, '+inf', 'LIMIT', 0, width)
    entries = entries and merged(entries, found, width) or found
  end
  return entries
end

local page, listed, bytes = {}, 0, 0
local examined, width = 0, limit
local is_last, is_full = false, false
while not is_last and not is_full and examined < EXAMINED_MAX do
  local entries = entries_behind(after, width)
  local last = false
  for _, entry in ipairs(entries) do
    if not_from == '' or string.sub(entry, POSTER + 1, SIZE) ~= not_from then
      bytes = bytes + bytes_max(entry)
      if listed == limit or (listed > 0 and bytes > ANSWER_BYTES_MAX) then
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
  width = math.min(WIDE, EXAMINED_MAX - examined)
end
-- A queue that is plain again is fair until nothing is left in a shard.
local is_fair = fairness_packed
  and (string.sub(fairness_packed, 1, 2) ~= '\0\1' or redis.call('EXISTS', shards) == 1)
return {'page', decimal(now), delays and 1 or 0, is_fair and 1 or 0, is_last and 1 or 0, after, unpack(page)}
