-- Assigns new messages their positions in the feed and stores them.
--
-- A message that is posted without delay is visible at once, and the last of them is the last visible rank. A message with a
-- delay stands in `delayed` at the rank at which it is due by logical time (logical_time.lua), so it is in its place in the
-- feed already. A visible message never has an undue one before it.
local GAPS_TRIED = 16

local function count_delayed(from, count)
  return redis.call('ZCOUNT', delayed, decimal(from), decimal(from + count - 1))
end

-- The first rank from this one on that no delayed message has.
local function next_free_rank(rank)
  if count_delayed(rank, 1) == 0 then
    return rank
  end
  local taken, width = 1, 2
  while count_delayed(rank, width) == width do
    taken, width = width, width * 2
  end
  while width - taken > 1 do
    local middle = math.floor((taken + width) / 2)
    if count_delayed(rank, middle) == middle then
      taken = middle
    else
      width = middle
    end
  end
  return rank + taken
end

-- How many ranks are free from a free one on, as far as that matters.
local function room_at(rank, wanted)
  local next_taken = redis.call('ZRANGEBYSCORE', delayed, decimal(rank), '+inf', 'LIMIT', 0, 1)[1]
  return next_taken and math.min(rank_of(next_taken) - rank, wanted) or wanted
end

-- This many free ranks from this one on: consecutive if there is room for that nearby, otherwise in order.
local function free_ranks(from, count)
  local ranks = {}
  local rank = next_free_rank(from)
  local room = room_at(rank, count)
  for _ = 1, GAPS_TRIED do
    if room == count then
      break
    end
    rank = next_free_rank(rank + room)
    room = room_at(rank, count)
  end
  if room < count then
    rank = next_free_rank(from)
    room = room_at(rank, count)
  end
  while true do
    for taken = rank, rank + room - 1 do
      ranks[#ranks + 1] = taken
    end
    if #ranks == count then
      return ranks
    end
    rank = next_free_rank(rank + room)
    room = room_at(rank, count - #ranks)
  end
end

-- Ranks for this many messages that are delayed by this much (s).
local function delayed_ranks(count, delay)
  raise_logical_time(last_visible + 1)
  local ranks = free_ranks(logical.time + delay * 1000000, count)
  note_due(ranks[1] - logical.offset)
  keep_logical_time()
  return ranks
end

-- Ranks for this many messages that are visible at once.
local function visible_ranks(count)
  local rank = math.max(last_visible + 1, logical and logical.time or now)
  while logical and count_delayed(0, rank + count) > 0 do
    -- These ranks would reach a message that is not due yet, which happens only when more than one message is posted per µs.
    release_delayed(rank + count - 1)
    rank = math.max(last_visible + 1, logical.time)
  end
  last_visible = rank + count - 1
  redis.call('HSET', queue, 'c', decimal(last_visible))
  local ranks = {}
  for i = 1, count do
    ranks[i] = rank + i - 1
  end
  return ranks
end

-- Stores messages of one delay at these ranks.
local function store(set, ranks, new, delays_before)
  local pack = struct.pack
  local keys, fields, members, blocks = {}, {}, {}, {}
  for i, rank in ipairs(ranks) do
    local place, stop = new.places[i], new.stops[i]
    local key, entry = pack(KEY, rank, place), pack(FRESH, rank, place, stop)
    keys[i] = key
    fields[2 * i - 1], fields[2 * i] = key, new.records[i]
    members[2 * i - 1], members[2 * i] = decimal(rank), new.deliveries and entry .. new.deliveries[i] or entry
    local block = block_of(rank)
    if not blocks[block] or stop < blocks[block] then
      blocks[block] = stop
    end
  end
  call_with_all('HSET', messages, fields)
  call_with_all('ZADD', set, members)
  note_expirations(blocks)
  if fairness() then
    local assigned = {}
    for i in ipairs(keys) do
      assigned[i] = new.lots[i] and assign_shard(new.lots[i], delays_before) or FIRST_SHARD
    end
    put_into_shards(keys, set == ready and FREE or DELAYED, assigned)
  end
  notify(set == ready and #ranks or 0)
  return keys
end

-- Posts messages. Of each message `new.places` has its nonce, poster and size class, `new.stops` the second in which it ends,
-- `new.records` its record, `new.lots` the shards of its tenant if the queue is fair, `new.delays` its delay (s), or nil if none
-- has one, and `new.deliveries` its delivery state, or nil if none has one. Returns their keys. Messages of one delay are next to
-- each other.
local function post(new)
  load_logical_time()
  if logical and redis.call('EXISTS', delayed) == 0 then
    forget_logical_time()
  end
  local delays_before = logical ~= nil
  if not new.delays then
    return store(ready, visible_ranks(#new.places), new, delays_before)
  end
  local groups, order, keys = {}, {}, {}
  for i, delay in ipairs(new.delays) do
    if not groups[delay] then
      groups[delay] = {at = {}, places = {}, stops = {}, records = {}, lots = {}}
      order[#order + 1] = delay
    end
    local group = groups[delay]
    local place = #group.at + 1
    group.at[place] = i
    for _, part in ipairs({'places', 'stops', 'records', 'lots'}) do
      group[part][place] = new[part][i]
    end
  end
  for _, delay in ipairs(order) do
    local group = groups[delay]
    local ranks = delay > 0 and delayed_ranks(#group.at, delay) or visible_ranks(#group.at)
    for place, key in ipairs(store(delay > 0 and delayed or ready, ranks, group, delays_before)) do
      keys[group.at[place]] = key
    end
  end
  return keys
end
