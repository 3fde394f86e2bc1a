-- Finds messages by their keys.

-- How many other entries a range may have beside each one that is wanted.
local OTHERS = 2

-- The entry of the message with that key, and which of these sets it is in.
local function find_entry(key, sets)
  local rank = decimal(rank_of(key))
  for _, set in ipairs(sets) do
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set, rank, rank)) do
      if key_of(entry) == key then
        return entry, set
      end
    end
  end
end

-- The entries of the messages with these keys that are in one of these sets, by key; and the set of each. Keys of one request mostly
-- have ranks near each other, so each set is asked once for the range that they span, and key by key only where that has many
-- other entries.
local function find_entries(keys, sets)
  local found, set_of, missing = {}, {}, {}
  for _, key in ipairs(keys) do
    missing[key] = rank_of(key)
  end
  for _, set in ipairs(sets) do
    local lowest, highest, count = math.huge, 0, 0
    for _, rank in pairs(missing) do
      lowest, highest, count = math.min(lowest, rank), math.max(highest, rank), count + 1
    end
    if count == 0 then
      break
    end
    local limit = (OTHERS + 1) * count
    local entries = redis.call('ZRANGEBYSCORE', set, decimal(lowest), decimal(highest), 'LIMIT', 0, limit)
    if #entries == limit then
      entries = {}
      for key in pairs(missing) do
        entries[#entries + 1] = find_entry(key, {set})
      end
    end
    for _, entry in ipairs(entries) do
      local key = key_of(entry)
      if missing[key] then
        found[key], set_of[key], missing[key] = entry, set, nil
      end
    end
  end
  return found, set_of
end
