-- List messages of a queue behind a rank, oldest first.
--
-- KEYS  the queue's
-- ARGV  1 the rank    2 how many at most    3 the client whose own messages are left out, or nothing
--       4 'held' to list claimed messages too    5 'delayed' to list those too that are not due yet, if messages
--       are delayed in this queue
-- Returns {'again'} when it was busy settling; {'page', now, whether messages are delayed in this queue (0 or
--       1), whether the queue is fair (0 or 1), whether nothing is left behind it (1 or 0), key, record, hold, ...}, shorter than wanted where it
--       would grow too large; or, when
--       it looked at as many as one script should and all were left out, {'onward', the last rank
--       looked at}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 5, 'message_list: the keys of the queue, 5 arguments')
local after, limit, not_from = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local with_held, with_delayed = ARGV[4] == 'held', ARGV[5] == 'delayed'
local CLIENT, CLIENT_END = 19, 34
local LOOKED_AT_MAX = 500
local WIDE = 50
local ITEMS = 3

if settle() then
  return {'again'}
end
local delays = policy().delays
local sets = {ready}
if with_held then
  sets[#sets + 1] = held
end
-- What a queue that delays no more has left undue is no part of its feed: links there name the peek to everybody.
if with_delayed and delays then
  sets[#sets + 1] = delayed
end

-- Two lists of keys in the order of their ranks, as one of this width at most. Ranks are compared and not
-- keys: Lua compares text as the server's locale does.
local function merged(one, other, width)
  local keys, i, j = {}, 1, 1
  while #keys < width and (one[i] or other[j]) do
    if one[i] and not (other[j] and rank_of(other[j]) < rank_of(one[i])) then
      keys[#keys + 1] = one[i]
      i = i + 1
    else
      keys[#keys + 1] = other[j]
      j = j + 1
    end
  end
  return keys
end

-- The next keys behind a rank, of all the sets that are wanted.
local function next_keys(rank, width)
  local keys
  for _, set in ipairs(sets) do
    local found = redis.call('ZRANGEBYSCORE', set, '(' .. rank, '+inf', 'LIMIT', 0, width)
    keys = keys and merged(keys, found, width) or found
  end
  return keys
end

local page = {'page', decimal(now), delays and 1 or 0, fairness() and 1 or 0, 0}
local IS_LAST = #page
local empty, full = #page, #page + ITEMS * limit
local looked_at, bytes, width, last = 0, 0, math.min(limit, WIDE), false
while #page < full and not last and (not_from == '' or looked_at < LOOKED_AT_MAX) do
  local keys = next_keys(after, width)
  local loaded = load(keys)
  local reached = #loaded.keys
  last = #keys < width and reached == #keys
  for i, record in ipairs(loaded.records) do
    local own = not_from ~= '' and string.sub(record, CLIENT, CLIENT_END) == not_from
    local fits = #page == empty or bytes + #record <= ANSWER_BYTES_MAX
    if not own and #page < full and fits then
      local size = #page
      page[size + 1], page[size + 2], page[size + 3] = loaded.keys[i], record, loaded.holds[i] or ''
      bytes = bytes + #record
    elseif not own then
      -- What does not fit is the next page's; nothing behind it may come before it.
      return page
    end
  end
  looked_at = looked_at + reached
  if reached > 0 then
    after = decimal(rank_of(keys[reached]))
  end
  width = WIDE
end
if #page == empty and not last then
  return {'onward', after}
end
page[IS_LAST] = last and 1 or 0
return page
