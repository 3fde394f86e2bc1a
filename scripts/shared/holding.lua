-- Puts messages, of which these are the holds, under a claim until `ttl` from now; those that would end before
-- the claim live that long and `grace` longer. Returns their holds, packed.
local function hold_for(keys, holds_before, claim, ttl, grace)
  if #keys == 0 then
    return {}
  end
  local prolonged_to, prolonged = math.ceil(now / 1000000) + ttl + grace, {}
  for i, key in ipairs(keys) do
    local hold = holds_before[i]
    if hold.second * 1000000 < now + ttl * 1000000 then
      hold.ttl = ttl + grace
      hold.second = prolonged_to
      prolonged[#prolonged + 1] = key
    end
    hold.claim = claim
  end
  local packed = keep_holds(keys, holds_before)
  if #prolonged > 0 then
    note_end(prolonged_to, prolonged)
  end
  return packed
end
