-- Selects the next available messages: the oldest, or in a fair queue one of each shard that has
-- any, in turn.
--
-- The position of a message's turn is its shard, or UNSHARDED. The queue stores the position that
-- was served last.

-- Returns up to `count` available messages of a position, oldest first, after the first `offset`
-- ones.
local function available_at(position, offset, count)
  if position ~= UNSHARDED then
    local score = AVAILABLE .. position
    return redis.call('ZRANGEBYSCORE', call.shards, score, score, 'LIMIT', offset, count)
  end
  local boundary = decimal(fairness().boundary)
  local keys = keys_of(redis.call('ZRANGEBYSCORE', call.ready, '-inf', boundary, 'LIMIT', offset, count))
  if #keys < count then
    local before = redis.call('ZCOUNT', call.ready, '-inf', boundary)
    local unsharded_offset, score = math.max(offset - before, 0), AVAILABLE .. UNSHARDED
    local unsharded =
      redis.call('ZRANGEBYSCORE', call.shards, score, score, 'LIMIT', unsharded_offset, count - #keys)
    for _, key in ipairs(unsharded) do
      keys[#keys + 1] = key
    end
  end
  return keys
end

-- Returns the oldest message of up to `limit` positions that have an available one, in the order of
-- their turns after `turn`; and those positions.
local function heads_after(turn, limit)
  local heads, positions = {}, {}
  local function collect_heads(from, last)
    while #heads < limit do
      local head = redis.call('ZRANGEBYSCORE', call.shards, from, AVAILABLE .. last, 'WITHSCORES', 'LIMIT', '0', '1')
      local score = head[2]
      if not score then
        return
      end
      heads[#heads + 1], positions[#positions + 1] = head[1], string.sub(score, 2)
      from = '(' .. score
    end
  end
  local first = AVAILABLE .. FIRST_SHARD
  collect_heads(turn == UNSHARDED and first or '(' .. AVAILABLE .. turn, LAST_SHARD)
  local unsharded = #heads < limit and available_at(UNSHARDED, 0, 1)[1]
  if unsharded then
    heads[#heads + 1], positions[#positions + 1] = unsharded, UNSHARDED
  end
  if turn ~= UNSHARDED then
    collect_heads(first, turn)
  end
  return heads, positions
end

-- Returns the oldest available message of each wanted position, oldest first, at most `limit`; and
-- their positions.
local function heads_among(wanted, limit)
  local position_of, heads = {}, {}
  for _, position in ipairs(wanted) do
    local head = available_at(position, 0, 1)[1]
    if head and not position_of[head] then
      position_of[head], heads[#heads + 1] = position, head
    end
  end
  table.sort(heads, function(one, other) return rank_of(one) < rank_of(other) end)
  local first, positions = {}, {}
  for i = 1, math.min(#heads, limit) do
    first[i], positions[i] = heads[i], position_of[heads[i]]
  end
  return first, positions
end

-- Appends further messages of these positions, in turn, until there are `limit` messages. `keys`
-- has one message of each position already.
local function append_rounds(keys, positions, limit)
  local active, rounds_done = {unpack(positions)}, 1
  while #keys < limit and #active > 0 do
    -- Each position is asked for an equal part of the missing messages. A position that returns
    -- fewer has no more.
    local part = math.ceil((limit - #keys) / #active)
    local more, others = {}, {}
    for i, position in ipairs(active) do
      more[i] = available_at(position, rounds_done, part)
      if #more[i] == part then
        others[#others + 1] = position
      end
    end
    for round = 1, part do
      for i, position in ipairs(active) do
        local key = more[i][round]
        if key and #keys < limit then
          keys[#keys + 1], positions[#positions + 1] = key, position
        end
      end
    end
    active, rounds_done = others, rounds_done + part
  end
end

-- Returns the entries of the next available messages, at most `limit` and as many as fit into one
-- reply; in a fair queue also their positions. A fair queue serves the preferred shards if the
-- preference may be followed.
--
-- `call.served_preferred` then says whether the selection followed the preference, and
-- `call.last_position` is the position of its last message.
local function next_entries(limit, preferred)
  local fair = fairness()
  local entries, positions
  call.served_preferred = false
  if not fair then
    entries, positions = redis.call('ZRANGE', call.ready, '0', limit - 1), {}
  else
    local keys
    keys, positions = {}, {}
    if #preferred > 0 and fair.preferred_in_a_row < PREFERRED_IN_A_ROW_MAX then
      keys, positions = heads_among(preferred, limit)
      call.served_preferred = #keys > 0
    end
    if not call.served_preferred then
      keys, positions = heads_after(fair.turn, limit)
    end
    if #keys < limit then
      append_rounds(keys, positions, limit)
    end
    local found = find_entries(keys, {call.ready})
    entries = {}
    for i, key in ipairs(keys) do
      entries[i] = found[key]
    end
  end
  local bytes = 0
  for i = 1, #entries do
    bytes = bytes + bytes_max(entries[i])
    if i > 1 and bytes > REPLY_BYTES_MAX then
      entries = {unpack(entries, 1, i - 1)}
      break
    end
  end
  call.last_position = positions[#entries]
  return entries, positions
end

-- Records the turns of the selected messages in a fair queue. Call this after the messages have
-- been removed from their set, because a full store refuses commands that need memory unless the
-- script has freed some before.
local function record_turns()
  local fair = fairness()
  if fair and call.last_position then
    if call.served_preferred then
      fair.preferred_in_a_row = fair.preferred_in_a_row + 1
    else
      fair.turn, fair.preferred_in_a_row = call.last_position, 0
    end
    store_fairness(fair)
  end
end

-- Removes available messages from their set: in a queue that is not fair the first ones, else by
-- entry.
local function take_from_ready(entries)
  if fairness() then
    redis.call('ZREM', call.ready, unpack(entries))
  else
    redis.call('ZREMRANGEBYRANK', call.ready, '0', #entries - 1)
  end
end

-- Moves the next messages, which have these positions, into flight under their entries in a claim.
local function put_in_flight(deliverable, claimed, positions)
  take_from_ready(deliverable)
  record_turns()
  redis.call('ZADD', call.in_flight, unpack(by_rank(claimed)))
  if fairness() then
    put_into_shards(keys_of(deliverable), IN_FLIGHT, positions)
  end
end
