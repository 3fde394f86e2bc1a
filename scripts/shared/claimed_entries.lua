-- Returns the in-flight entries of messages that come under a claim. A message that would expire
-- before the claim does lives until the claim's ttl and grace have passed. `deliveries_added` is 1
-- for a new claim, else 0. The entries keep the delivery state from before the claim, for a claim
-- that is withdrawn; renewals keep the one from before the first term.
local function claimed_entries(entries, id, ttl, grace, deliveries_added)
  local claimed_until = call.now / 1000000 + ttl
  local prolonged_ttl = ttl + grace
  local prolonged_end_s = math.floor(call.now / 1000000) + 1 + prolonged_ttl
  local now_ms = struct.pack(MILLISECONDS, math.floor(call.now / 1000))
  local claimed = {}
  for i = 1, #entries do
    local entry = entries[i]
    local count, own_ttl, end_s = delivery_of(entry)
    local before, first_claim
    if #entry == FRESH_BYTES then
      before, first_claim = FRESH_COUNT_AND_TTL .. string.sub(entry, END + 1), ''
    else
      before = #entry < IN_FLIGHT_BYTES and string.sub(entry, FRESH_BYTES + 1, DELIVERED_BYTES) or delivery_before(entry)
      first_claim = first_claim_of(entry)
    end
    if deliveries_added > 0 then
      count = count % COUNT_LIMIT
      count = count < COUNT_LIMIT - 1 and count + deliveries_added or count
      if LAYOUT >= 4 and first_claim == '' then
        first_claim = now_ms
      end
    end
    if end_s < claimed_until then
      own_ttl, end_s = prolonged_ttl, prolonged_end_s
    end
    claimed[i] = struct.pack(CLAIMED_ENTRY, entry, count, own_ttl, end_s, first_claim, id, before)
  end
  return claimed
end
