-- Finds messages by their keys. Keys of one request mostly have ranks near each other, so each set is asked once for the range that
-- they span, and key by key only where that has many other entries.
local OTHERS = 2

-- The entries of the messages with these keys that are in one of these sets, by key; and the set of each.
local function find_entries(keys, sets)
  local found, set_of, wanted = {}, {}, {}
  for _, key in ipairs(keys) do
    wanted[key] = true
  end
  local missing = keys
  local function look(set, lowest, highest, limit)
    local entries = redis.call('ZRANGEBYSCORE', set, decimal(lowest), decimal(highest), 'LIMIT', 0, limit)
    for _, entry in ipairs(entries) do
      local key = key_of(entry)
      if wanted[key] then
        found[key], set_of[key] = entry, set
      end
    end
    return #entries < limit
  end
  for _, set in ipairs(sets) do
    local lowest, highest = math.huge, 0
    for _, key in ipairs(missing) do
      local rank = rank_of(key)
      lowest, highest = math.min(lowest, rank), math.max(highest, rank)
    end
    local has_seen_all = look(set, lowest, highest, (OTHERS + 1) * #missing)
    local still_missing = {}
    for _, key in ipairs(missing) do
      if not found[key] and not has_seen_all then
        look(set, rank_of(key), rank_of(key), OTHERS)
      end
      if not found[key] then
        still_missing[#still_missing + 1] = key
      end
    end
    missing = still_missing
    if #missing == 0 then
      break
    end
  end
  return found, set_of
end

-- The entry of the message with that key, and which of these sets it is in.
local function find_entry(key, sets)
  local found, set_of = find_entries({key}, sets)
  return found[key], set_of[key]
end
