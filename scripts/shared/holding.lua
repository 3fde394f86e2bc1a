-- Puts messages, of which these are the holds, under a claim until `ttl` from now; those that would end before
-- the claim live that long and `grace` longer. Returns their holds, packed.
local function hold_for(keys, holds_before, claim, ttl, grace)
  local prolonged_to = math.ceil(now / 1000000) + ttl + grace
  local fields, prolonged, packed = {}, {}, {}
  for i, key in ipairs(keys) do
    local hold = holds_before[i]
    if hold.second * 1000000 < now + ttl * 1000000 then
      hold.ttl = ttl + grace
      hold.second = prolonged_to
      prolonged[#prolonged + 1] = key
    end
    hold.claim = claim
    packed[i] = packed_hold(hold)
    fields[#fields + 1], fields[#fields + 2] = key, packed[i]
  end
  if #keys > 0 then
    redis.call('HSET', holds, unpack(fields))
  end
  if #prolonged > 0 then
    note_end(prolonged_to, prolonged)
  end
  return packed
end
