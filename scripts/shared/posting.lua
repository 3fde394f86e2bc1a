-- Gives new messages their places in the feed and stores them.
--
-- A message that is posted without delay is visible at once, and the counter is its rank. One with a
-- delay stands in `delayed` at the rank at which it is due, behind the counter. What is visible must
-- never have something undue before it, so a post whose ranks would reach that far waits too, behind
-- it: as a rule for microseconds. Until it is visible, later posts go behind it, but not if it waits
-- for a clock that has stepped back.
local BATCH = 1000
local GAPS_TRIED = 16
local WAITED_FOR_US = 1000000

local function count_delayed(from, count)
  return redis.call('ZCOUNT', delayed, from, from + count - 1)
end

-- The first rank from this one on that no delayed message has.
local function next_free(rank)
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
  local next_taken = redis.call('ZRANGEBYSCORE', delayed, rank, '+inf', 'LIMIT', 0, 1)[1]
  return next_taken and math.min(rank_of(next_taken) - rank, wanted) or wanted
end

-- Free ranks for so many messages, from this one on: next to each other if there is room for that near
-- by, else in order.
local function free_ranks(from, count)
  local ranks = {}
  local rank = next_free(from)
  local room = room_at(rank, count)
  for _ = 1, GAPS_TRIED do
    if room == count then
      break
    end
    rank = next_free(rank + room)
    room = room_at(rank, count)
  end
  if room < count then
    rank = next_free(from)
    room = room_at(rank, count)
  end
  while true do
    for taken = rank, rank + room - 1 do
      ranks[#ranks + 1] = taken
    end
    if #ranks == count then
      return ranks
    end
    rank = next_free(rank + room)
    room = room_at(rank, count - #ranks)
  end
end

-- Ranks for so many messages of one delay (s), and the set that they belong to.
local function places(count, delay)
  local rank = next_rank()
  local clear = redis.call('EXISTS', delayed) == 0
  local waiting = clear and 0 or tonumber(redis.call('HGET', queue, 't')) or 0
  local queued = waiting >= rank and waiting <= now + WAITED_FOR_US
  if queued then
    rank = waiting + 1
  end
  if delay > 0 then
    return free_ranks(rank + delay * 1000000, count), delayed
  elseif clear or not queued and count_delayed(rank, count) == 0 then
    local ranks = {}
    for i = 1, count do
      ranks[i] = rank + i - 1
    end
    redis.call('SET', counter, decimal(rank + count - 1))
    return ranks, ready
  end
  local ranks = free_ranks(rank, count)
  redis.call('HSET', queue, 't', decimal(ranks[count]))
  return ranks, delayed
end

local function store_batch(set, fields, members)
  redis.call('HSET', messages, unpack(fields))
  redis.call('ZADD', set, unpack(members))
end

-- Posts messages, each with a nonce, a delay (s), a record, the second in which it ends, and if the queue is fair by its metadata
-- the shards that its tenant has; their keys. Those of one delay are next to each other.
local function post(nonces, delays, records, seconds, lots)
  local groups, order = {}, {}
  for i, delay in ipairs(delays) do
    if not groups[delay] then
      groups[delay] = {}
      order[#order + 1] = delay
    end
    table.insert(groups[delay], i)
  end

  local is_fair = fairness()
  local had_delayed = is_fair and redis.call('EXISTS', delayed) == 1
  local keys, ending = {}, {}
  for _, delay in ipairs(order) do
    local group = groups[delay]
    local ranks, set = places(#group, delay)
    -- A rank may run ahead of a clock that has stepped back, so far that it is of another second: then the records say
    -- when they are of. Else they stay as they came, which spares a copy.
    local any, dated = records[group[1]], nil
    local newest = created_at(ranks[#group], any)
    if string.byte(any, VERSION) == RANKED and (math.floor(newest / 1000000) > math.floor(now / 1000000)
        or math.ceil(newest / 1000000) > math.ceil(now / 1000000)) then
      dated = '\149\1\207' .. struct.pack('>I8', now)
    end
    local fields, members = {}, {}
    local group_keys, drawn = {}, {}
    for place, i in ipairs(group) do
      local key = string.sub(struct.pack('>I8', ranks[place]), 2) .. nonces[i]
      keys[i] = key
      if is_fair then
        group_keys[place], drawn[place] = key, lots[i] and shard_from(lots[i], had_delayed) or FIRST_SHARD
      end
      fields[#fields + 1], fields[#fields + 2] = key, dated and dated .. string.sub(records[i], BEHIND_CREATED) or records[i]
      members[#members + 1], members[#members + 2] = ranks[place], key
      local ended = ending[seconds[i]] or {}
      ended[#ended + 1] = key
      ending[seconds[i]] = ended
      if #members == 2 * BATCH then
        store_batch(set, fields, members)
        fields, members = {}, {}
      end
    end
    if #members > 0 then
      store_batch(set, fields, members)
    end
    for from = 1, #group_keys, BATCH do
      local to = math.min(from + BATCH - 1, #group_keys)
      put_into_shards({unpack(group_keys, from, to)}, set, {unpack(drawn, from, to)})
    end
    tell(set == ready and #group or 0)
  end
  for second, ended in pairs(ending) do
    note_end(second, ended)
  end
  return keys
end

