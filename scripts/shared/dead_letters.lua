-- Dead letters: messages that were delivered as often as their queue allows move to another queue. That queue may be in another
-- slot, so they leave through `outbox`, numbered, and are posted there in steps of their own, which may be repeated: the other
-- queue keeps the last number that it received from here. A message moves at most once per delivery: a dead letter that was not
-- delivered since it arrived is delivered first, whatever its count.
--
-- In the outbox, a dead letter is its number, its delivery state (claim count, ttl (s) or 0 for its record's, end (s)), its entry,
-- the name of the other queue behind its length, and its record. src/storage/redis/dead_letters.rs reads it.
local function is_dead(entry, rules)
  if rules.target == '' then
    return false
  end
  local count = #entry > FRESH_BYTES and struct.unpack('>I4', entry, FRESH_BYTES + 1) or 0
  return count < UNDELIVERED and count >= rules.count_max
end

-- Moves dead messages that are available to the outbox.
local function send_dead_letters(dead, rules)
  if #dead == 0 then
    return
  end
  local number = math.max(tonumber(redis.call('HGET', queue, 'o')) or 0, last_visible, now - 1)
  local records = redis.call('HMGET', messages, unpack(keys_of(dead)))
  local letters = {}
  for i, entry in ipairs(dead) do
    if records[i] then
      local count, ttl, stop = delivery_of(entry)
      if rules.dead_letter_ttl > 0 then
        ttl, stop = rules.dead_letter_ttl, math.floor(now / 1000000) + 1 + rules.dead_letter_ttl
      end
      number = number + 1
      letters[#letters + 1] = struct.pack(DEAD_LETTER, number, count, ttl, stop, entry, #rules.target)
        .. rules.target .. records[i]
    end
  end
  -- Frees before anything grows, so that this works when the store is full.
  remove(ready, dead)
  forget_empty_blocks(#dead)
  if #letters > 0 then
    redis.call('RPUSH', outbox, unpack(letters))
    redis.call('HSET', queue, 'o', decimal(number))
  end
  -- Should the driver fail to forward them, the janitor does.
  redis.call('ZADD', due, 'LT', decimal(now), queue_tag())
end

-- The messages that are delivered next, and their positions in a fair queue. Those of them that are dead move to the outbox; the last
-- value says whether that was so for all. The caller takes the others and notes the turns. storage/embedded/dead_letters.rs has the same rule.
local function next_to_deliver(limit, preferred, rules)
  local entries, positions = next_entries(limit, preferred)
  local live, live_positions, dead = {}, {}, {}
  for i, entry in ipairs(entries) do
    if is_dead(entry, rules) then
      dead[#dead + 1] = entry
    else
      live[#live + 1], live_positions[#live + 1] = entry, positions[i]
    end
  end
  send_dead_letters(dead, rules)
  return live, live_positions, #dead > 0 and #live == 0
end

-- How many dead letters wait to be forwarded from a queue with these rules.
local function waiting_dead_letters(rules)
  return rules.target ~= '' and redis.call('LLEN', outbox) or 0
end
