-- Which available messages are next: the oldest; in a fair queue one of each shard that has any, in turn.
--
-- The position of a message's turn is its shard, or UNSHARDED. The queue keeps the position that was served last.

-- Some free messages of a position, oldest first, behind so many.
local function free_at(position, passed, count)
  if position ~= UNSHARDED then
    return redis.call('ZRANGEBYSCORE', shards, FREE .. position, FREE .. position, 'LIMIT', passed, count)
  end
  local boundary = decimal(fairness().boundary)
  local keys = keys_of(redis.call('ZRANGEBYSCORE', ready, '-inf', boundary, 'LIMIT', passed, count))
  if #keys < count then
    local before = redis.call('ZCOUNT', ready, '-inf', boundary)
    local behind, score = math.max(passed - before, 0), FREE .. UNSHARDED
    for _, key in ipairs(redis.call('ZRANGEBYSCORE', shards, score, score, 'LIMIT', behind, count - #keys)) do
      keys[#keys + 1] = key
    end
  end
  return keys
end

-- The oldest messages of the positions that have something free, in the order of their turns behind one, so many at most; and
-- those positions.
local function heads_behind(turn, limit)
  local heads, positions = {}, {}
  local function look(from, last)
    while #heads < limit do
      local head = redis.call('ZRANGEBYSCORE', shards, from, FREE .. last, 'WITHSCORES', 'LIMIT', '0', '1')
      local score = head[2]
      if not score then
        return
      end
      heads[#heads + 1], positions[#positions + 1] = head[1], string.sub(score, 2)
      from = '(' .. score
    end
  end
  local first = FREE .. FIRST_SHARD
  look(turn == UNSHARDED and first or '(' .. FREE .. turn, LAST_SHARD)
  local unsharded = #heads < limit and free_at(UNSHARDED, 0, 1)[1]
  if unsharded then
    heads[#heads + 1], positions[#positions + 1] = unsharded, UNSHARDED
  end
  if turn ~= UNSHARDED then
    look(first, turn)
  end
  return heads, positions
end

-- The oldest messages of those of some positions that have something free, the longest waiting first, so many at most; and
-- those positions.
local function heads_among(wanted, limit)
  local position_of, heads = {}, {}
  for _, position in ipairs(wanted) do
    local head = free_at(position, 0, 1)[1]
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

-- Adds, behind the oldest message of each of these positions, what they give in further turns, until there are so many.
local function go_round(keys, positions, limit)
  local lines, given = {unpack(positions)}, 1
  while #keys < limit and #lines > 0 do
    -- Each is asked for its part of what is left; those that have given it go on.
    local part = math.ceil((limit - #keys) / #lines)
    local more, others = {}, {}
    for i, position in ipairs(lines) do
      more[i] = free_at(position, given, part)
      if #more[i] == part then
        others[#others + 1] = position
      end
    end
    for round = 1, part do
      for i, position in ipairs(lines) do
        local key = more[i][round]
        if key and #keys < limit then
          keys[#keys + 1], positions[#positions + 1] = key, position
        end
      end
    end
    lines, given = others, given + part
  end
end

-- Whether what is next was picked as somebody prefers, and the position of the last message.
local is_preferred = false
local last_position

-- The entries of the available messages that are next, at most this many and as many as fit into one answer, in a fair queue
-- from some shards if the preference may be followed; and there their positions.
local function next_entries(limit, preferred)
  local divided = fairness()
  local entries, positions
  is_preferred = false
  if not divided then
    entries, positions = redis.call('ZRANGE', ready, 0, limit - 1), {}
  else
    local keys
    keys, positions = {}, {}
    if #preferred > 0 and divided.passes < PREFERRED_IN_A_ROW_MAX then
      keys, positions = heads_among(preferred, limit)
      is_preferred = #keys > 0
    end
    if not is_preferred then
      keys, positions = heads_behind(divided.turn, limit)
    end
    if #keys < limit then
      go_round(keys, positions, limit)
    end
    local found = find_entries(keys, {ready})
    entries = {}
    for i, key in ipairs(keys) do
      entries[i] = found[key]
    end
  end
  local bytes = 0
  for i, entry in ipairs(entries) do
    bytes = bytes + bytes_max(entry)
    if i > 1 and bytes > ANSWER_BYTES_MAX then
      entries = {unpack(entries, 1, i - 1)}
      break
    end
  end
  last_position = positions[#entries]
  return entries, positions
end

-- Notes that the messages which were next had their turns, in a fair queue. Called when they are out of their set, because a full
-- store refuses what grows unless the script has freed something before.
local function note_turns()
  local divided = fairness()
  if divided and last_position then
    if is_preferred then
      divided.passes = divided.passes + 1
    else
      divided.turn, divided.passes = last_position, 0
    end
    keep_fairness(divided)
  end
end

-- Takes available messages out of their set: at the head of a plain queue the first ones, else by their entries.
local function take(entries)
  if fairness() then
    redis.call('ZREM', ready, unpack(entries))
  else
    redis.call('ZREMRANGEBYRANK', ready, 0, #entries - 1)
  end
end
