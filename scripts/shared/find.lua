-- Finds messages by their keys.

-- Maximum number of other entries that a range may have for each entry that is wanted.
local UNWANTED_PER_KEY_MAX = 2

-- Returns the entry of the message with this key, and which of the sets it is in.
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

-- Returns the entries of messages in these sets by key, and the set of each by key. Keys of one
-- request usually have ranks near each other. So each set is queried once for the whole range, and
-- key by key only if the range has many other entries.
local function find_entries(keys, sets)
  local found, set_of, missing = {}, {}, {}
  local lowest, highest, count = math.huge, 0, 0
  for i = 1, #keys do
    local rank = rank_of(keys[i])
    lowest, highest = rank < lowest and rank or lowest, rank > highest and rank or highest
    count = missing[keys[i]] and count or count + 1
    missing[keys[i]] = true
  end
  local first, last = count > 0 and decimal(lowest), count > 0 and decimal(highest)
  for _, set in ipairs(sets) do
    if count == 0 then
      break
    end
    local limit = (UNWANTED_PER_KEY_MAX + 1) * count
    local entries = redis.call('ZRANGEBYSCORE', set, first, last, 'LIMIT', 0, limit)
    if #entries == limit then
      entries = {}
      for key in pairs(missing) do
        entries[#entries + 1] = find_entry(key, {set})
      end
    end
    for i = 1, #entries do
      local key = key_of(entries[i])
      if missing[key] then
        found[key], set_of[key], missing[key], count = entries[i], set, nil, count - 1
      end
    end
  end
  return found, set_of
end
