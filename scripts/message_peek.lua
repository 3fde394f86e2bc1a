-- Finds messages by their keys, with their states. The script examines the first keys only if their
-- claims are large, because it must read each claim as a whole to get the client. The size of a claim
-- grows with the number of its messages.
--
-- ARGV  message keys
-- Returns {'due'} if due changes must be applied first; otherwise {'found', now, number of keys
--       examined, then for each message that exists its entry; its state: 'available', 'delayed',
--       'returned' with a delay, or 'claimed'; the time (µs) when it becomes available or its claim
--       expires, empty if it is available; and the client of its claim, empty if it is not claimed}.
assert(#ARGV >= 1, 'message_peek: 1 argument or more')

if load_queue() then
  return {'due'}
end
-- Logical time is ahead of the clock by this much, so delayed messages are due before their ranks.
local ahead = call.logical_packed and struct.unpack(LOGICAL_TIME, call.logical_packed) or 0
local found, clients, claim_bytes = {'found', decimal(call.now), #ARGV}, {}, 0
local entries, set_of = find_entries(ARGV, {call.ready, call.in_flight, call.delayed})
for i, key in ipairs(ARGV) do
  local entry, set = entries[key], set_of[key]
  if entry then
    local state, time, client = 'available', '', ''
    local claim = set == call.in_flight and claim_in(entry)
    if set == call.delayed then
      state, time = 'delayed', decimal(rank_of(entry) - ahead)
    elseif claim == NO_CLAIM then
      state, time = 'returned', decimal(redis.call('ZSCORE', call.leases, own_lease_of(entry)))
    elseif claim then
      if not clients[claim] then
        local bytes
        clients[claim], bytes = client_of(claim)
        claim_bytes = claim_bytes + bytes
      end
      state, time, client = 'claimed', decimal(redis.call('ZSCORE', call.leases, claim)), clients[claim]
    end
    local at = #found
    found[at + 1], found[at + 2], found[at + 3], found[at + 4] = entry, state, time, client
  end
  if claim_bytes > REPLY_BYTES_MAX then
    found[3] = i
    break
  end
end
return found
