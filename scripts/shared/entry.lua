-- Entries: what the sets by rank contain of a message. storage/entry.rs describes the bytes.
local function key_of(entry)
  return string.sub(entry, 1, KEY_BYTES)
end

local function keys_of(entries)
  local keys = {}
  for i = 1, #entries do
    keys[i] = string.sub(entries[i], 1, KEY_BYTES)
  end
  return keys
end

-- The maximum size in bytes of a record of each size class (SizeClass::bytes_max in storage/entry.rs).
-- This counts as the size of the message.
local size_of_class = {}
for class = 0, 255 do
  local eighths = class % 8
  size_of_class[class] = (8 + eighths) * 2 ^ ((class - eighths) / 8)
end

-- Returns the maximum size of the message's record in bytes.
local function bytes_max(entry)
  return size_of_class[string.byte(entry, SIZE + 1)]
end

-- Returns the sum of the sizes of the messages with these entries.
local function bytes_of(entries)
  local sum = 0
  for i = 1, #entries do
    sum = sum + bytes_max(entries[i])
  end
  return sum
end

-- Returns the sum of the sizes of all messages, nil if it is not known.
local function known_bytes()
  if not call.stored_bytes and redis.call('EXISTS', call.messages) == 0 then
    call.stored_bytes = 0
  end
  return call.stored_bytes
end

-- Changes the sum of the sizes of all messages. Messages are added after that.
local function add_bytes(difference)
  if known_bytes() then
    call.stored_bytes = call.stored_bytes + difference
    redis.call('HSET', call.queue, 'b', decimal(call.stored_bytes))
  end
end

-- Returns the delivery state: claim count, ttl (s) or 0 for that of the record, and the second in
-- which the message expires.
local function delivery_of(entry)
  if #entry == FRESH_BYTES then
    return 0, 0, (struct.unpack('>I4', entry, END + 1))
  end
  return struct.unpack(DELIVERY_STATE, entry, FRESH_BYTES + 1)
end

-- Returns the second in which the message expires.
local function current_end_s(entry)
  local at = #entry == FRESH_BYTES and END or DELIVERED_BYTES - 4
  return (struct.unpack('>I4', entry, at + 1))
end

-- Returns the claim id of an entry in flight: 16 zero bytes if the message was returned with a
-- delay.
local function claim_in(entry)
  return string.sub(entry, -CLAIM_BYTES - DELIVERY_BYTES, -DELIVERY_BYTES - 1)
end

-- Returns the bytes of the delivery state that a message in flight had before its claim.
local function delivery_before(entry)
  return string.sub(entry, -DELIVERY_BYTES)
end

-- Returns the entry that a message in flight has when it is under no claim any more.
local function released_entry(entry)
  return string.sub(entry, 1, -CLAIM_BYTES - DELIVERY_BYTES - 1)
end

-- Returns the bytes of the time of the first claim: none if it is not known.
local function first_claim_of(entry)
  local last = #entry < IN_FLIGHT_BYTES and #entry or #entry - CLAIM_BYTES - DELIVERY_BYTES
  return string.sub(entry, DELIVERED_BYTES + 1, last)
end

-- Returns arguments for ZADD: each entry after its rank as the score.
local function by_rank(entries)
  local members = {}
  for i = 1, #entries do
    members[2 * i - 1], members[2 * i] = decimal(rank_of(entries[i])), entries[i]
  end
  return members
end
