-- The entries in flight of messages that come under a claim. A message that would end before the claim lives until the claim's
-- ttl and grace are over. `counted` is 1 where deliveries are counted. The delivery state before the claim is kept for a claim
-- that is withdrawn; renewals keep the one from before the first claim.
local function under_claim(entries, id, ttl, grace, counted)
  local claimed_until = now / 1000000 + ttl
  local prolonged_ttl = ttl + grace
  local prolonged_to = math.floor(now / 1000000) + 1 + prolonged_ttl
  local claimed = {}
  for i, entry in ipairs(entries) do
    local count, own_ttl, stop = delivery_of(entry)
    local before = #entry == IN_FLIGHT_BYTES and delivery_before(entry) or struct.pack(DELIVERY, count, own_ttl, stop)
    if counted > 0 then
      count = count % UNDELIVERED + counted
    end
    if stop < claimed_until then
      own_ttl, stop = prolonged_ttl, prolonged_to
    end
    claimed[i] = struct.pack(CLAIMED, entry, count, own_ttl, stop, id, before)
  end
  return claimed
end
