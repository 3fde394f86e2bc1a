-- Applies the due changes of a queue, some hundreds at a time, and records when the next one is
-- due. It expires claims and delays of returned messages, removes expired messages, subscriptions
-- and idempotency outcomes, and releases delayed messages.
--
-- Returns {'absent' if the queue does not exist, 'again' if more may be due, otherwise 'done';
--       number of dead letters to forward; id of a task that no process works on, or empty;
--       number of expired messages removed; 1 if work is due for deliveries, else 0}.
local LEASES_MAX = 100
local SUBSCRIPTIONS_MAX = 100
local BLOCKS_MAX = 16
local ENTRIES_MAX = 250
-- The next rank to visit in a block, and the earliest second in which a message before it expires.
local VISITED = '>I8I4'
-- A second in which no message expires.
local NEVER = 4294967295
local expired_count = 0

-- Ends expired claims and delays of returned messages, and makes the messages that they still hold
-- available again. Returns whether there may be more.
local function expire_leases()
  local expired = redis.call('ZRANGEBYSCORE', call.leases, '-inf', decimal(call.now), 'LIMIT', 0, LEASES_MAX)
  local rows = #expired > 0 and redis.call('HMGET', call.claims, unpack(expired))
  local is_over, claimed, returned, released = {}, {}, {}, {}
  for i, lease in ipairs(expired) do
    if rows[i] then
      is_over[lease] = true
      local claim = unpack_claim(rows[i])
      for _, key in ipairs(claim.keys or keys_of(claim.entries)) do
        claimed[#claimed + 1] = key
      end
    elseif #lease ~= CLAIM_BYTES then
      returned[#returned + 1] = string.sub(lease, #RETURNED + 1, #RETURNED + KEY_BYTES)
    end
    released[#released + 1] = lease
    if #claimed + #returned >= ENTRIES_MAX then
      break
    end
  end
  if #released > 0 then
    remove_claims(released)
    return_to_ready(entries_under(is_over, claimed), released_entry)
    return_to_ready(entries_under({[NO_CLAIM] = true}, returned), released_entry)
  end
  return #expired == LEASES_MAX or #released < #expired
end

-- Removes the expired messages with these ranks, up to the number of entries that one script may
-- examine. Returns the last rank examined, the earliest second in which another message expires,
-- and the number of entries examined.
local function visit_ranks(first, last, now_s)
  local found, last_visited = {}, last
  for i, set in ipairs({call.ready, call.in_flight, call.delayed}) do
    found[i] = redis.call('ZRANGEBYSCORE', set, decimal(first), decimal(last), 'LIMIT', 0, ENTRIES_MAX)
    if #found[i] == ENTRIES_MAX then
      last_visited = math.min(last_visited, rank_of(found[i][ENTRIES_MAX]))
    end
  end
  local examined, earliest = 0, NEVER
  for i, set in ipairs({call.ready, call.in_flight, call.delayed}) do
    local expired = {}
    for _, entry in ipairs(found[i]) do
      if last_visited < last and rank_of(entry) > last_visited then
        break
      end
      local end_s = current_end_s(entry)
      if end_s <= now_s then
        expired[#expired + 1] = entry
      else
        earliest = math.min(earliest, end_s)
      end
      examined = examined + 1
    end
    remove_messages(set, expired)
    if set == call.in_flight then
      leave_leases(expired)
    end
    expired_count = expired_count + #expired
  end
  return last_visited, earliest, examined
end

-- Removes the expired messages of a block from rank `first` on. Messages before that rank are known
-- to expire in second `earliest` or later. If one script cannot examine the whole block, field x of
-- the queue records the progress for the next one. Returns the number of entries examined, and
-- whether some are left.
local function visit_block(block, first, earliest, now_s)
  local last = (block + 1) * BLOCK_US - 1
  local last_visited, next_end_s, examined = visit_ranks(first, last, now_s)
  earliest = math.min(earliest, next_end_s)
  if last_visited < last then
    -- A message that is added to the block meanwhile lowers this score.
    redis.call('ZADD', call.expirations, NEVER, decimal(block))
    redis.call('HSET', call.queue, 'x', struct.pack(VISITED, last_visited + 1, earliest))
    return examined, true
  end
  if first > block * BLOCK_US then
    redis.call('HDEL', call.queue, 'x')
    earliest = math.min(earliest, tonumber(redis.call('ZSCORE', call.expirations, decimal(block))) or NEVER)
  end
  if earliest < NEVER then
    redis.call('ZADD', call.expirations, earliest, decimal(block))
  else
    redis.call('ZREM', call.expirations, decimal(block))
  end
  return examined, false
end

-- Removes expired messages. Returns whether there may be more.
local function expire_messages()
  local now_s, examined = math.floor(call.now / 1000000), 0
  local progress = redis.call('HGET', call.queue, 'x')
  if progress then
    local first, earliest = struct.unpack(VISITED, progress)
    local has_more
    examined, has_more = visit_block(block_of(first), first, earliest, now_s)
    if has_more then
      return true
    end
  end
  local blocks = redis.call('ZRANGEBYSCORE', call.expirations, '-inf', now_s, 'LIMIT', 0, BLOCKS_MAX)
  for _, text in ipairs(blocks) do
    if examined >= ENTRIES_MAX then
      return true
    end
    local block = tonumber(text)
    local count, has_more = visit_block(block, block * BLOCK_US, NEVER, now_s)
    if has_more then
      return true
    end
    examined = examined + count
  end
  return #blocks == BLOCKS_MAX
end

-- Releases delayed messages that are due by logical time. A rank that is visible was due once, even
-- if the clock has stepped back since.
local function release_due()
  load_logical_time()
  if not call.logical then
    return false
  end
  local last_before = call.last_visible
  local may_be_more = release_delayed(math.max(call.logical.time, call.last_visible))
  if call.subscription_count and call.last_visible > last_before then
    signal_deliveries()
  end
  if redis.call('EXISTS', call.delayed) == 1 then
    store_logical_time()
  else
    clear_logical_time()
  end
  return may_be_more
end

local function remove_expired_outcomes()
  local expired =
    redis.call('ZRANGEBYSCORE', call.idempotency_expirations, '-inf', decimal(call.now), 'LIMIT', 0, ENTRIES_MAX)
  if #expired > 0 then
    redis.call('HDEL', call.idempotency, unpack(expired))
    redis.call('ZREM', call.idempotency_expirations, unpack(expired))
  end
  return #expired == ENTRIES_MAX
end

-- Removes expired subscriptions. Returns whether there may be more.
local function remove_expired_subscriptions()
  if not call.subscription_count then
    return false
  end
  local now_s = math.floor(call.now / 1000000)
  local expired = redis.call('ZRANGEBYSCORE', call.subscription_ends, '-inf', now_s, 'LIMIT', 0, SUBSCRIPTIONS_MAX)
  local removed_count, retry_count = 0, 0
  for _, id in ipairs(expired) do
    if retry_count >= ENTRIES_MAX then
      break
    end
    retry_count = retry_count + remove_subscription(id)
    record_subscription_change(id)
    removed_count = removed_count + 1
  end
  if removed_count > 0 then
    signal_deliveries()
  end
  return #expired == SUBSCRIPTIONS_MAX or removed_count < #expired
end

local function first_score(set)
  return tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- Records when the next change is due: for operations on the queue, and for the janitor, which also
-- forwards dead letters, continues tasks and deliveries, and removes subscriptions and idempotency
-- outcomes.
local function schedule_next(outbox_length, lease_ends_at, deliveries_at, has_more, more_expired)
  -- 0 and not now, because the clock may step back.
  local time = more_expired and 0 or math.min(first_score(call.leases), first_score(call.expirations) * 1000000,
    call.logical and first_score(call.delayed) - call.logical.offset or math.huge)
  if time < math.huge then
    redis.call('HSET', call.queue, 'd', decimal(time))
  end
  time = math.min(time, lease_ends_at, deliveries_at, first_score(call.idempotency_expirations),
    call.subscription_count and first_score(call.subscription_ends) * 1000000 or math.huge,
    (outbox_length > 0 or has_more) and call.now or math.huge)
  redis.call('ZREM', call.due, hash_tag())
  if time < math.huge then
    redis.call('ZADD', call.due, decimal(time), hash_tag())
  end
end

call.subscription_count = select(2, load_queue('n'))
local outbox_length = redis.call('LLEN', call.outbox)
if not call.revision then
  if outbox_length == 0 then
    redis.call('ZREM', call.due, hash_tag())
  end
  return {'absent', outbox_length, '', 0, 0}
end
-- Comes first, because a full store refuses commands that need memory unless the script has written
-- before.
redis.call('HDEL', call.queue, 'd')
local more_leases, more_expired = expire_leases(), expire_messages()
if expired_count > 0 then
  redis.call('HINCRBY', call.queue, 'te', expired_count)
end
local more_released = release_due()
local more_outcomes, more_subscriptions = remove_expired_outcomes(), remove_expired_subscriptions()
if call.fairness_packed and not fairness() then
  redis.call('HDEL', call.queue, 'f')
end
local has_more = more_leases or more_expired or more_released or more_subscriptions
local lease_ends_at, abandoned_task = first_task_lease()
local deliveries_at = call.subscription_count and deliveries_due_at() or math.huge
schedule_next(outbox_length, lease_ends_at, deliveries_at, has_more or more_outcomes, more_expired)
return {
  has_more and 'again' or 'done', outbox_length, abandoned_task, expired_count, deliveries_at <= call.now and 1 or 0,
}
