-- A message's entry, which the sets by rank have. Its bytes are described in storage/entry.rs.
local function key_of(entry)
  return string.sub(entry, 1, KEY_BYTES)
end

local function keys_of(entries)
  local keys = {}
  for i, entry in ipairs(entries) do
    keys[i] = string.sub(entry, 1, KEY_BYTES)
  end
  return keys
end

-- The largest number of bytes that the message's record has (SizeClass::bytes_max in storage/entry.rs).
local function bytes_max(entry)
  local class = string.byte(entry, SIZE + 1)
  local eighths = class % 8
  return (8 + eighths) * 2 ^ ((class - eighths) / 8)
end

-- The delivery state: claim count, ttl (s) or 0 for the record's, the second in which the message ends.
local function delivery_of(entry)
  if #entry == FRESH_BYTES then
    return 0, 0, (struct.unpack('>I4', entry, END + 1))
  end
  return struct.unpack(DELIVERY, entry, FRESH_BYTES + 1)
end

-- The second in which the message ends.
local function end_of(entry)
  local at = #entry == FRESH_BYTES and END or DELIVERED_BYTES - 4
  return (struct.unpack('>I4', entry, at + 1))
end

-- The claim of an entry in flight: 16 zero bytes if the message was returned with a delay.
local function claim_in(entry)
  return string.sub(entry, DELIVERED_BYTES + 1, DELIVERED_BYTES + CLAIM_BYTES)
end

-- The delivery state, in its bytes, that a message in flight had before its claim.
local function delivery_before(entry)
  return string.sub(entry, DELIVERED_BYTES + CLAIM_BYTES + 1)
end

-- Members of a set by rank, with their scores in front of them.
local function by_rank(entries)
  local members = {}
  for i, entry in ipairs(entries) do
    members[2 * i - 1], members[2 * i] = decimal(rank_of(entry)), entry
  end
  return members
end
