-- Returns the in-flight entries of messages that come under a claim. A message that would expire
-- before the claim does lives until the claim's ttl and grace have passed. `deliveries_added` is 1
-- if the queue counts deliveries, else 0. The entries keep the delivery state from before the
-- claim, for a claim that is withdrawn; renewals keep the one from before the first term.
local function claimed_entries(entries, id, ttl, grace, deliveries_added)
  local claimed_until = call.now / 1000000 + ttl
  local prolonged_ttl = ttl + grace
  local prolonged_end_s = math.floor(call.now / 1000000) + 1 + prolonged_ttl
  local claimed = {}
  for i, entry in ipairs(entries) do
    local count, own_ttl, end_s = delivery_of(entry)
    local before = #entry == FRESH_BYTES and FRESH_COUNT_AND_TTL .. string.sub(entry, END + 1)
      or #entry == DELIVERED_BYTES and string.sub(entry, FRESH_BYTES + 1)
      or delivery_before(entry)
    if deliveries_added > 0 then
      count = count % UNDELIVERED + deliveries_added
    end
    if end_s < claimed_until then
      own_ttl, end_s = prolonged_ttl, prolonged_end_s
    end
    claimed[i] = struct.pack(CLAIMED_ENTRY, entry, count, own_ttl, end_s, id, before)
  end
  return claimed
end
