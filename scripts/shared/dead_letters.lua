-- Dead letters: messages that have been delivered as often as their queue allows move to another
-- queue. That queue may be in another slot, so dead letters leave through `outbox`, are numbered,
-- and are posted in separate steps. These steps may be repeated, because the receiving queue stores
-- the last number that it received from each queue.
--
-- A message moves at most once per delivery: a dead letter that has not been delivered since it
-- arrived is delivered first, whatever its count.
--
-- Messages that a redrive moves take the same path. They become new messages, so their deliveries
-- are not counted, and their time to live starts anew. If their new queue does not exist any more,
-- they return to their old positions (redrive_return.lua).
--
-- In the outbox, a message consists of its number, its delivery state, its entry, the length of its
-- target, its target, and its record. The delivery state is the claim count, the ttl (s) or 0 for
-- that of the record, and the end (s). The target is the name of the receiving queue. For a message
-- that a redrive moves, `~` and the epoch of that queue follow. crates/storage/src/moved_messages.rs reads
-- it.
local function is_dead_letter(entry, policy)
  if policy.dead_letter_queue == '' then
    return false
  end
  local count = #entry > FRESH_BYTES and struct.unpack('>I4', entry, FRESH_BYTES + 1) or 0
  return count < UNDELIVERED and count % COUNT_LIMIT >= policy.deliveries_max
end

-- Moves available messages to the outbox: dead letters, or for a redrive the messages that go to
-- these targets.
local function move_to_outbox(entries, policy, targets)
  if #entries == 0 then
    return
  end
  local number = math.max(tonumber(redis.call('HGET', call.queue, 'o')) or 0, call.last_visible, call.now - 1)
  local records = redis.call('HMGET', call.messages, unpack(keys_of(entries)))
  local packed = {}
  for i, entry in ipairs(entries) do
    if records[i] then
      local count, ttl, end_s = delivery_of(entry)
      local target = targets and targets[i] or policy.dead_letter_queue
      local new_ttl = targets and struct.unpack('>I4', records[i], RECORD_TTL + 1) or policy.dead_letter_ttl
      if new_ttl > 0 then
        ttl, end_s = new_ttl, math.floor(call.now / 1000000) + 1 + new_ttl
      end
      number = number + 1
      packed[#packed + 1] = struct.pack(DEAD_LETTER, number, count, ttl, end_s, entry, #target)
        .. target .. records[i]
    end
  end
  -- Frees memory before anything grows, so that this works when the store is full.
  remove_messages(call.ready, entries)
  remove_empty_blocks(#entries)
  if #packed > 0 then
    redis.call('RPUSH', call.outbox, unpack(packed))
    redis.call('HSET', call.queue, 'o', decimal(number))
    if not targets then
      redis.call('HINCRBY', call.queue, 'td', #packed)
    end
  end
  -- If the driver fails to forward the dead letters, the janitor forwards them.
  redis.call('ZADD', call.due, 'LT', decimal(call.now), hash_tag())
end

-- Returns the next messages to deliver, and their positions in a fair queue. Messages that are dead
-- letters move to the outbox; the third value says whether that was so for all. The caller takes
-- the messages and records the turns. storage/embedded/dead_letters.rs has the same rule.
local function next_deliverable(limit, preferred, policy)
  local entries, positions = next_entries(limit, preferred)
  if policy.dead_letter_queue == '' then
    return entries, positions, false
  end
  local deliverable, deliverable_positions, dead_letters = {}, {}, {}
  for i, entry in ipairs(entries) do
    if is_dead_letter(entry, policy) then
      dead_letters[#dead_letters + 1] = entry
    else
      deliverable[#deliverable + 1], deliverable_positions[#deliverable + 1] = entry, positions[i]
    end
  end
  move_to_outbox(dead_letters, policy)
  return deliverable, deliverable_positions, #dead_letters > 0 and #deliverable == 0
end

-- Returns 1 if the dead letters of the queue come to its own end, so that a claim must not go on to them
-- at once; else 0.
local function is_own_dead_letter_queue(policy)
  return string.match(call.queue, '/([^/]*)}') == policy.dead_letter_queue and 1 or 0
end

-- Returns the number of dead letters to forward from a queue with this policy.
local function outbox_length_of(policy)
  return policy.dead_letter_queue ~= '' and redis.call('LLEN', call.outbox) or 0
end
