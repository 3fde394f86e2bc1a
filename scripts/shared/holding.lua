-- Where a message's creation time (µs) and ttl (s) stand in its record.
local CREATED_AND_TTL = '>I8xI4'
local CREATED = 4

-- Puts a message under a claim until `ttl` from now, and lets it live that long and `grace` longer if it
-- would have ended before the claim.
local function hold_for(key, claim, ttl, grace)
  local hold = hold_of(key)
  if not hold then
    local created, own_ttl = struct.unpack(CREATED_AND_TTL, redis.call('HGET', messages, key), CREATED)
    hold = {count = 0, ttl = own_ttl, second = math.ceil(created / 1000000) + own_ttl}
  end
  if hold.second * 1000000 < now + ttl * 1000000 then
    hold.ttl = ttl + grace
    hold.second = math.ceil(now / 1000000) + ttl + grace
    note_end(hold.second, {key})
  end
  hold.claim = claim
  keep_hold(key, hold)
end

