-- Finds messages by their keys, with their states.
--
-- ARGV  message keys
-- Returns {'due'} if due changes must be applied first; otherwise {'found', now, then for each
--       message that exists its entry; its state: 'available', 'delayed', 'returned' with a delay, or
--       'claimed'; the time (µs) when it becomes available or its claim expires, empty if it is
--       available; and the client of its claim, empty if it is not claimed}.
assert(#ARGV >= 1, 'message_peek: 1 argument or more')

if load_queue() then
  return {'due'}
end
-- Logical time is ahead of the clock by this much, so delayed messages are due before their ranks.
local ahead = logical_packed and struct.unpack(LOGICAL_TIME, logical_packed) or 0
local found, clients = {'found', decimal(now)}, {}
local entries, set_of = find_entries(ARGV, {ready, in_flight, delayed})
for _, key in ipairs(ARGV) do
  local entry, set = entries[key], set_of[key]
  if entry then
    local state, time, client = 'available', '', ''
    local claim = set == in_flight and claim_in(entry)
    if set == delayed then
      state, time = 'delayed', decimal(rank_of(entry) - ahead)
    elseif claim == NO_CLAIM then
      state, time = 'returned', decimal(redis.call('ZSCORE', leases, RETURNED .. entry))
    elseif claim then
      clients[claim] = clients[claim] or client_of(claim)
      state, time, client = 'claimed', decimal(redis.call('ZSCORE', leases, claim)), clients[claim]
    end
    local at = #found
    found[at + 1], found[at + 2], found[at + 3], found[at + 4] = entry, state, time, client
  end
end
return found
