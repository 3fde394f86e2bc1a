-- The entry of a message with that key in one of these sets, and the set.
local function find_entry(key, sets)
  local rank = decimal(rank_of(key))
  for _, set in ipairs(sets) do
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set, rank, rank)) do
      if string.sub(entry, 1, KEY_BYTES) == key then
        return entry, set
      end
    end
  end
end
