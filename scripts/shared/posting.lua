-- Assigns positions in the feed to new messages and stores them.
--
-- A message without a delay is visible at once, and the last such message has the last visible
-- rank. A delayed message is in `delayed` at the rank at which it is due by logical time
-- (logical_time.lua), so its position in the feed is already fixed. No delayed message that is not
-- yet due has a rank before a visible message.
local GAPS_TRIED = 16

local function count_delayed(from, count)
  return redis.call('ZCOUNT', call.delayed, decimal(from), decimal(from + count - 1))
end

-- Returns the first rank from `rank` on that no delayed message has.
local function next_free_rank(rank)
  if count_delayed(rank, 1) == 0 then
    return rank
  end
  local occupied, width = 1, 2
  while count_delayed(rank, width) == width do
    occupied, width = width, width * 2
  end
  while width - occupied > 1 do
    local middle = math.floor((occupied + width) / 2)
    if count_delayed(rank, middle) == middle then
      occupied = middle
    else
      width = middle
    end
  end
  return rank + occupied
end

-- Returns the number of consecutive free ranks from a free one on, at most `wanted`.
local function free_run(rank, wanted)
  local next_taken = redis.call('ZRANGEBYSCORE', call.delayed, decimal(rank), '+inf', 'LIMIT', 0, 1)[1]
  return next_taken and math.min(rank_of(next_taken) - rank, wanted) or wanted
end

-- Returns `count` free ranks from `from` on: consecutive if a long enough run is nearby, otherwise
-- in order.
local function free_ranks(from, count)
  local ranks = {}
  local rank = next_free_rank(from)
  local run = free_run(rank, count)
  for _ = 1, GAPS_TRIED do
    if run == count then
      break
    end
    rank = next_free_rank(rank + run)
    run = free_run(rank, count)
  end
  if run < count then
    rank = next_free_rank(from)
    run = free_run(rank, count)
  end
  while true do
    for free_rank = rank, rank + run - 1 do
      ranks[#ranks + 1] = free_rank
    end
    if #ranks == count then
      return ranks
    end
    rank = next_free_rank(rank + run)
    run = free_run(rank, count - #ranks)
  end
end

-- Returns ranks for `count` messages with this delay (s), and counts the messages as posted.
local function delayed_ranks(count, delay)
  raise_logical_time(call.last_visible + 1)
  local ranks = free_ranks(call.logical.time + delay * 1000000, count)
  schedule_due(ranks[1] - call.logical.offset)
  store_logical_time()
  call.posted_total = call.posted_total + count
  redis.call('HSET', call.queue, 'c', struct.pack(FEED_STATE, call.last_visible, call.posted_total))
  if call.subscription_count then
    signal_deliveries()
  end
  return ranks
end

-- Returns ranks for `count` messages that are visible at once, and counts the messages as posted.
local function visible_ranks(count)
  local rank = math.max(call.last_visible + 1, call.logical and call.logical.time or call.now)
  while call.logical and count_delayed(0, rank + count) > 0 do
    -- These ranks would reach a message that is not due yet. That happens only if more than one
    -- message is posted per µs.
    release_delayed(rank + count - 1)
    rank = math.max(call.last_visible + 1, call.logical.time)
  end
  call.last_visible = rank + count - 1
  call.posted_total = call.posted_total + count
  redis.call('HSET', call.queue, 'c', struct.pack(FEED_STATE, call.last_visible, call.posted_total))
  if call.logical then
    -- If the clock steps back, logical time continues from the stored time.
    store_logical_time()
  end
  if call.subscription_count then
    signal_deliveries()
  end
  local ranks = {}
  for i = 1, count do
    ranks[i] = rank + i - 1
  end
  return ranks
end

-- Stores messages of one delay at these ranks, and returns their keys.
local function store_messages(set, ranks, new, delays_before)
  local pack = struct.pack
  local keys, fields, members, blocks = {}, {}, {}, {}
  for i, rank in ipairs(ranks) do
    local header, end_s = new.headers[i], new.end_seconds[i]
    local key, entry = pack(KEY, rank, header), pack(FRESH_ENTRY, rank, header, end_s)
    keys[i] = key
    fields[2 * i - 1], fields[2 * i] = key, new.records[i]
    members[2 * i - 1], members[2 * i] = decimal(rank), new.delivery_states and entry .. new.delivery_states[i] or entry
    local block = block_of(rank)
    if not blocks[block] or end_s < blocks[block] then
      blocks[block] = end_s
    end
  end
  call_in_chunks('HSET', call.messages, fields)
  call_in_chunks('ZADD', set, members)
  note_expirations(blocks)
  if fairness() then
    local assigned = {}
    for i in ipairs(keys) do
      assigned[i] = new.candidates[i] and assign_shard(new.candidates[i], delays_before) or FIRST_SHARD
    end
    put_into_shards(keys, set == call.ready and AVAILABLE or DELAYED, assigned)
  end
  notify(set == call.ready and #ranks or 0)
  return keys
end

-- Posts messages and returns their keys. `new` has these lists, with an item for each message:
--   headers: nonce, poster and size class;
--   end_seconds: the second in which the message expires;
--   records: the record;
--   candidates: the shards of its tenant, if the queue is fair;
--   delays: the delay (s); nil if no message has one;
--   delivery_states: the delivery state; nil if no message has one.
-- And it has `bytes`, the sum of the sizes of the messages.
-- Messages with the same delay get ranks next to each other.
local function post_messages(new)
  add_bytes(new.bytes)
  load_logical_time()
  if call.logical and redis.call('EXISTS', call.delayed) == 0 then
    clear_logical_time()
  end
  local delays_before = call.logical ~= nil
  if not new.delays then
    return store_messages(call.ready, visible_ranks(#new.headers), new, delays_before)
  end
  local groups, delays, keys = {}, {}, {}
  for i, delay in ipairs(new.delays) do
    if not groups[delay] then
      groups[delay] = {indexes = {}, headers = {}, end_seconds = {}, records = {}, candidates = {}}
      delays[#delays + 1] = delay
    end
    local group = groups[delay]
    local index = #group.indexes + 1
    group.indexes[index] = i
    for _, part in ipairs({'headers', 'end_seconds', 'records', 'candidates'}) do
      group[part][index] = new[part][i]
    end
  end
  for _, delay in ipairs(delays) do
    local group = groups[delay]
    local ranks = delay > 0 and delayed_ranks(#group.indexes, delay) or visible_ranks(#group.indexes)
    for index, key in ipairs(store_messages(delay > 0 and call.delayed or call.ready, ranks, group, delays_before)) do
      keys[group.indexes[index]] = key
    end
  end
  return keys
end
