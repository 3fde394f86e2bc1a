-- Puts a message under a claim until `ttl` from now, and lets it live that long and `grace` longer if it
-- would have ended before the claim.
local function hold_for(key, claim, ttl, grace)
  local hold = hold_or_new(key)
  if hold.second * 1000000 < now + ttl * 1000000 then
    hold.ttl = ttl + grace
    hold.second = math.ceil(now / 1000000) + ttl + grace
    note_end(hold.second, {key})
  end
  hold.claim = claim
  keep_hold(key, hold)
end

