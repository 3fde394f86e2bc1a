-- Live claims. `leases` has them by expiry. `claims` has the ttl (s) of each, the time (µs) at
-- which its term started, its fence, the length and id of its client, and the in-flight entries of
-- its messages. `claim_ids` has the ids in byte order, for lists. A message that was returned with a
-- delay has a lease of its own, named by RETURNED and its entry.
local CLAIM = '>I4I8I8I2c0'
local RETURNED = '~'
-- A pop is a claim without a fence that is not listed, until its messages are deleted. A claim or pop that
-- was ended early is one without messages for a while. So a command that creates it and arrives only later
-- takes nothing.
local NO_FENCE = 0
-- Field k of the queue: the last fence, and the number of messages that claims have taken so far.
-- Both only grow, and survive a purge.
local CLAIM_COUNTERS = '>I8I8'

-- Returns a claim's ttl, the time at which its term started, the entries that it was given or has
-- renewed, its fence and its client; nothing if the claim is not live.
local function read_claim(id)
  local claim = redis.call('HGET', call.claims, id)
  if claim then
    local ttl, since, fence, client, next_byte = struct.unpack(CLAIM, claim)
    if fence > NO_FENCE or next_byte <= #claim then
      return ttl, since, split(string.sub(claim, next_byte), IN_FLIGHT_BYTES), fence, client
    end
  end
end

-- Does the same for a check. Returns nothing for a claim that cannot be read, which the driver reports.
local function read_claim_if_readable(id)
  local is_readable, ttl, since, entries, fence = pcall(read_claim, id)
  if is_readable then
    return ttl, since, entries, fence
  end
end

local function store_claim(id, ttl, entries, fence, client)
  local end_us = call.now + ttl * 1000000
  redis.call('HSET', call.claims, id, struct.pack(CLAIM, ttl, call.now, fence, #client, client) .. table.concat(entries))
  redis.call('ZADD', call.leases, decimal(end_us), id)
  schedule_due(end_us)
end

-- Keeps the id of a claim or pop that has ended.
local function store_ended(id)
  store_claim(id, UNLISTED_LEASE_S, {}, NO_FENCE, '')
end

-- Returns the client of a live claim, and the size of the claim in bytes.
local function client_of(id)
  local claim = redis.call('HGET', call.claims, id)
  local _, _, _, client = struct.unpack(CLAIM, claim)
  return client, #claim
end

-- Returns those of the entries that are still in flight unchanged.
local function still_in_flight(entries)
  local found = {}
  for i, score in ipairs(query_in_chunks('ZMSCORE', call.in_flight, entries)) do
    if score then
      found[#found + 1] = entries[i]
    end
  end
  return found
end

-- Makes messages in flight available again at their old positions. `to_entry` makes their new
-- entries.
local function return_to_ready(entries, to_entry)
  if #entries == 0 then
    return
  end
  local returned, lowest = {}, math.huge
  for i, entry in ipairs(entries) do
    returned[i] = to_entry(entry)
    lowest = math.min(lowest, rank_of(entry))
  end
  call_in_chunks('ZREM', call.in_flight, entries)
  call_in_chunks('ZADD', call.ready, by_rank(returned))
  if fairness() then
    local keys = keys_of(entries)
    put_into_shards(keys, AVAILABLE, shards_of(keys))
  end
  notify(#entries, lowest)
end

-- Returns the entry of a message whose claim was released or has expired.
local function released_entry(entry)
  return string.sub(entry, 1, DELIVERED_BYTES)
end

-- Returns the entry that a message in flight had before its claim.
local function entry_before_claim(entry)
  return string.sub(entry, 1, FRESH_BYTES) .. delivery_before(entry)
end

-- Makes messages in flight available again in their state before their claim.
local function withdraw(entries)
  return_to_ready(entries, entry_before_claim)
  if #entries > 0 then
    -- Without the claim, the messages may expire earlier than was recorded for it.
    local blocks = {}
    for _, entry in ipairs(entries) do
      local block = block_of(rank_of(entry))
      blocks[block] = math.min(blocks[block] or math.huge, current_end_s(entry_before_claim(entry)))
    end
    note_expirations(blocks)
  end
end

-- Returns a claim as the reply of a script. `waiting` is the number of dead letters to forward.
-- `is_first_claim` has one flag for each message of a new claim: '1' if it was never claimed
-- before.
local function claim_reply(waiting, ttl, since, fence, is_first_claim, entries)
  -- Formatting a number takes thousands of instructions, and in a new claim they are often equal.
  local now_text = decimal(call.now)
  local since_text = since == call.now and now_text or decimal(since)
  local fence_text = fence == call.now and now_text or decimal(fence)
  return {'claim', waiting, now_text, ttl, since_text, fence_text, is_first_claim, unpack(entries)}
end
