-- What scripts look at in a message's record: '\149', its version, '\207', when the message was created (µs) or, in
-- version 3, how long before its rank; '\206', its ttl (s). storage/record.rs has the rest.
local RANKED = 3
local VERSION, CREATED, BEHIND_CREATED, TTL = 2, 4, 12, 13

local function ttl_in(record)
  return (struct.unpack('>I4', record, TTL))
end

-- When the message of that rank was created.
local function created_at(rank, record)
  local number = struct.unpack('>I8', record, CREATED)
  return string.byte(record, VERSION) == RANKED and rank - number or number
end
