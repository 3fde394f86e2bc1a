-- Applies what is due in a queue: ends claims and returns, removes messages that have ended, releases delayed messages, some hundreds
-- at a time; and notes when the next thing is due.
--
-- Returns 'absent' without a queue, 'again' if more may be due, otherwise 'done'; and the number of dead letters to forward.
local LEASES_MAX = 100
local BLOCKS_MAX = 16
local ENTRIES_MAX = 250
-- The next rank to visit in a block, and the earliest second in which a message before it ends.
local VISITED = '>I8I4'
-- A second in which no message ends.
local NEVER = 4294967295

-- Ends claims and returns whose time is over: makes the messages that they still hold available again.
local function end_leases()
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', decimal(now), 'LIMIT', 0, LEASES_MAX)
  local ids, rows, entries, ended = {}, {}, {}, {}
  for _, lease in ipairs(over) do
    if #lease == CLAIM_BYTES then
      ids[#ids + 1] = lease
    end
  end
  if #ids > 0 then
    rows = redis.call('HMGET', claims, unpack(ids))
  end
  local next_row = 1
  for _, lease in ipairs(over) do
    if #lease == CLAIM_BYTES then
      local row = rows[next_row]
      next_row = next_row + 1
      for _, entry in ipairs(row and pieces_of(string.sub(row, CLAIM_HEAD_BYTES + 1), IN_FLIGHT_BYTES) or {}) do
        entries[#entries + 1] = entry
      end
    else
      entries[#entries + 1] = string.sub(lease, #RETURNED + 1)
    end
    ended[#ended + 1] = lease
    if #entries >= ENTRIES_MAX then
      break
    end
  end
  if #ended > 0 then
    redis.call('ZREM', leases, unpack(ended))
    if #ids > 0 then
      redis.call('HDEL', claims, unpack(ended))
    end
    give_back(still_in_flight(entries), delivered)
  end
  return #over == LEASES_MAX or #ended < #over
end

-- Removes the messages with these ranks that have ended, as far as one script may examine them. Returns the last rank up to which it
-- has, the earliest second in which another one ends, and how many entries it has examined.
local function visit_ranks(first, last, now_s)
  local found, reached = {}, last
  for i, set in ipairs({ready, in_flight, delayed}) do
    found[i] = redis.call('ZRANGEBYSCORE', set, decimal(first), decimal(last), 'LIMIT', 0, ENTRIES_MAX)
    if #found[i] == ENTRIES_MAX then
      reached = math.min(reached, rank_of(found[i][ENTRIES_MAX]))
    end
  end
  local examined, earliest = 0, NEVER
  for i, set in ipairs({ready, in_flight, delayed}) do
    local ended = {}
    for _, entry in ipairs(found[i]) do
      if reached < last and rank_of(entry) > reached then
        break
      end
      local stop = end_of(entry)
      if stop <= now_s then
        ended[#ended + 1] = entry
      else
        earliest = math.min(earliest, stop)
      end
      examined = examined + 1
    end
    remove(set, ended)
  end
  return reached, earliest, examined
end

-- Removes the messages of a block that have ended, from this rank on; those before it are known to end in this second at the earliest.
-- Where there are too many for one script, the rest is left to the next one: then the field x says how far it was. Returns how many
-- entries it has examined, and whether there is a rest.
local function visit_block(block, first, earliest, now_s)
  local last = (block + 1) * BLOCK_US - 1
  local reached, next_end, examined = visit_ranks(first, last, now_s)
  earliest = math.min(earliest, next_end)
  if reached < last then
    -- Who adds a message to the block meanwhile notes its end here.
    redis.call('ZADD', expirations, NEVER, decimal(block))
    redis.call('HSET', queue, 'x', struct.pack(VISITED, reached + 1, earliest))
    return examined, true
  end
  if first > block * BLOCK_US then
    redis.call('HDEL', queue, 'x')
    earliest = math.min(earliest, tonumber(redis.call('ZSCORE', expirations, decimal(block))) or NEVER)
  end
  if earliest < NEVER then
    redis.call('ZADD', expirations, earliest, decimal(block))
  else
    redis.call('ZREM', expirations, decimal(block))
  end
  return examined, false
end

-- Removes messages that have ended. Returns whether there may be more.
local function expire_messages()
  local now_s, examined = math.floor(now / 1000000), 0
  local visited = redis.call('HGET', queue, 'x')
  if visited then
    local first, earliest = struct.unpack(VISITED, visited)
    local has_rest
    examined, has_rest = visit_block(block_of(first), first, earliest, now_s)
    if has_rest then
      return true
    end
  end
  local blocks = redis.call('ZRANGEBYSCORE', expirations, '-inf', now_s, 'LIMIT', 0, BLOCKS_MAX)
  for _, text in ipairs(blocks) do
    if examined >= ENTRIES_MAX then
      return true
    end
    local block = tonumber(text)
    local count, has_rest = visit_block(block, block * BLOCK_US, NEVER, now_s)
    if has_rest then
      return true
    end
    examined = examined + count
  end
  return #blocks == BLOCKS_MAX
end

-- Releases delayed messages that are due by logical time. A rank that is visible was due once, whatever the clock says now.
local function release_due()
  load_logical_time()
  if not logical then
    return false
  end
  local may_be_more = release_delayed(math.max(logical.time, last_visible))
  if redis.call('EXISTS', delayed) == 1 then
    keep_logical_time()
  else
    forget_logical_time()
  end
  return may_be_more
end

local function forget_outcomes()
  local over = redis.call('ZRANGEBYSCORE', idempotency_expirations, '-inf', decimal(now), 'LIMIT', 0, ENTRIES_MAX)
  if #over > 0 then
    redis.call('HDEL', idempotency, unpack(over))
    redis.call('ZREM', idempotency_expirations, unpack(over))
  end
  return #over == ENTRIES_MAX
end

local function first_score(set)
  return tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- Notes when the next thing is due: for operations on the queue, and for the janitor, who also forwards dead letters and forgets
-- outcomes.
local function note_next(waiting, is_more, has_ended_ones)
  -- 0 instead of now, because the clock may step back.
  local time = has_ended_ones and 0 or math.min(first_score(leases), first_score(expirations) * 1000000,
    logical and first_score(delayed) - logical.offset or math.huge)
  if time < math.huge then
    redis.call('HSET', queue, 'd', decimal(time))
  end
  time = math.min(time, first_score(idempotency_expirations), (waiting > 0 or is_more) and now or math.huge)
  redis.call('ZREM', due, queue_tag())
  if time < math.huge then
    redis.call('ZADD', due, decimal(time), queue_tag())
  end
end

load_queue()
local waiting = redis.call('LLEN', outbox)
if not revision then
  if waiting == 0 then
    redis.call('ZREM', due, queue_tag())
  end
  return {'absent', waiting}
end
-- First, because a full store refuses what grows unless the script has written before.
redis.call('HDEL', queue, 'd')
local more_leases, more_ended = end_leases(), expire_messages()
local more_released = release_due()
local more_outcomes = forget_outcomes()
if fairness_packed and not fairness() then
  redis.call('HDEL', queue, 'f')
end
local is_more = more_leases or more_ended or more_released
note_next(waiting, is_more or more_outcomes, more_ended)
return {is_more and 'again' or 'done', waiting}
