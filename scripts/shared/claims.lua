-- Live claims. `leases` has them by expiry. `claims` has the ttl (s) of each, plus HAS_KEYS; the time (µs)
-- at which its term started; its fence; the length and id of its client; and the keys of the messages that
-- it was given. Under its id and HELD, `claims` has the number of messages that it still holds. `claim_ids`
-- has the ids in byte order, for lists. A message that was returned with a delay has a lease of its own,
-- named by RETURNED and its key.
--
-- Pops, and claims of layout 3, have the in-flight entries of the messages instead of their number and
-- keys, and the ttl alone. In layout 3 the lease of a returned message is named by RETURNED and its entry.
local CLAIM = '>I4I8I8I2c0'
local RETURNED = '~'
-- A pop is a claim without a fence that is not listed, until its messages are deleted. A claim or pop that
-- was ended early is one without messages for a while. So a command that creates it and arrives only later
-- takes nothing.
local NO_FENCE = 0
-- Field k of the queue: the last fence, and the number of messages that claims have taken so far.
-- Both only grow, and survive a purge.
local CLAIM_COUNTERS = '>I8I8'

-- Returns the claim in a row: its ttl, the time `since` which its term runs, its fence, its client, and the
-- `keys` or `entries` of the messages that it was given or has renewed.
local function unpack_claim(row)
  local claim, next_byte = {}, nil
  claim.ttl, claim.since, claim.fence, claim.client, next_byte = struct.unpack(CLAIM, row)
  if claim.ttl >= HAS_KEYS then
    claim.ttl = claim.ttl - HAS_KEYS
    claim.keys = split(string.sub(row, next_byte), KEY_BYTES)
  else
    claim.entries = split(string.sub(row, next_byte), IN_FLIGHT_BYTES)
  end
  return claim
end

-- Returns a claim, or nothing if it is not live.
local function read_claim(id)
  local row = redis.call('HGET', call.claims, id)
  local claim = row and unpack_claim(row)
  return claim and (claim.fence > NO_FENCE or #(claim.entries or claim.keys) > 0) and claim or nil
end

-- Does the same for a check. Returns nothing for a claim that cannot be read, which the driver reports.
local function read_claim_if_readable(id)
  local is_readable, claim = pcall(read_claim, id)
  return is_readable and claim or nil
end

local function store_claim(id, ttl, entries, fence, client)
  local end_us = call.now + ttl * 1000000
  local joined = (LAYOUT < 4 or fence == NO_FENCE) and table.concat(entries)
  -- Other entries are longer. Only layout 4 has them.
  if joined and #joined == #entries * IN_FLIGHT_BYTES then
    redis.call('HSET', call.claims, id, struct.pack(CLAIM, ttl, call.now, fence, #client, client) .. joined)
  else
    local head = struct.pack(CLAIM, ttl + HAS_KEYS, call.now, fence, #client, client)
    redis.call('HSET', call.claims, id, head .. table.concat(keys_of(entries)), id .. HELD, #entries)
  end
  redis.call('ZADD', call.leases, decimal(end_us), id)
  schedule_due(end_us)
end

-- Keeps the id of a claim or pop that has ended.
local function store_ended(id)
  store_claim(id, UNLISTED_LEASE_S, {}, NO_FENCE, '')
end

-- Returns the in-flight entries of the messages with these keys that claims with these ids still hold.
local function entries_under(is_claim, keys)
  local found, held = find_entries(keys, {call.in_flight}), {}
  for _, key in ipairs(keys) do
    if found[key] and is_claim[claim_in(found[key])] then
      held[#held + 1] = found[key]
    end
  end
  return held
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

-- Returns the in-flight entries of the messages that a claim still holds.
local function held_entries(id, claim)
  return claim.entries and still_in_flight(claim.entries) or entries_under({[id] = true}, claim.keys)
end

-- Returns the number of messages that a claim still holds.
local function held_count(id, claim)
  return claim.entries and #still_in_flight(claim.entries) or tonumber(redis.call('HGET', call.claims, id .. HELD))
end

-- Removes everything that is stored about claims, except that their messages are in flight.
local function remove_claims(ids)
  local fields = {}
  for i = 1, #ids do
    fields[2 * i - 1], fields[2 * i] = ids[i], ids[i] .. HELD
  end
  redis.call('ZREM', call.leases, unpack(ids))
  redis.call('HDEL', call.claims, unpack(fields))
  redis.call('ZREM', call.claim_ids, unpack(ids))
end

-- Returns the client of a claim, and the size of the claim in bytes.
local function client_of(id)
  local row = redis.call('HGET', call.claims, id)
  return unpack_claim(row).client, #row
end

-- Returns the name of the lease of a message that was returned with a delay.
local function own_lease_of(entry)
  return RETURNED .. (#entry == IN_FLIGHT_BYTES and entry or key_of(entry))
end

-- Removes what claims and leases have stored about messages that have left them. A claim that holds no more
-- messages ends. Comes after the removal of the messages, because a full store refuses it unless the script
-- has written before.
local function leave_leases(entries)
  local left, own_leases = {}, {}
  for i = 1, #entries do
    local entry = entries[i]
    local id = claim_in(entry)
    if id == NO_CLAIM then
      own_leases[#own_leases + 1] = own_lease_of(entry)
    else
      left[id] = (left[id] or 0) + 1
    end
  end
  if #own_leases > 0 then
    call_in_chunks('ZREM', call.leases, own_leases)
  end
  for id, count in pairs(left) do
    local held = redis.call('HINCRBY', call.claims, id .. HELD, -count)
    if held <= 0 then
      redis.call('HDEL', call.claims, id .. HELD)
    end
    -- A lower number is that of a pop or a claim of layout 3, which do not end so.
    if held == 0 then
      redis.call('ZREM', call.claim_ids, id)
      store_ended(id)
    end
  end
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

-- Returns the entry that a message in flight had before its claim. One that was not delivered before has
-- no first claim.
local function entry_before_claim(entry)
  local before = delivery_before(entry)
  local first_claim = struct.unpack('>I4', before) % COUNT_LIMIT > 0 and first_claim_of(entry) or ''
  return string.sub(entry, 1, FRESH_BYTES) .. before .. first_claim
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
