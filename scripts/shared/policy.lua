-- The part of a queue's metadata that scripts use, packed by the driver (storage/policy.rs). The
-- fields are flags, which say whether messages are delayed (1) and whether the queue is fair (2);
-- the maximum number of deliveries; and the ttl (s) of dead letters (0: the time they have left).
-- In a fair queue the numbers of shards and of shards per tenant follow. The rest is the name of
-- the queue for dead letters. With a maximum of 0, which earlier releases have stored, there is no
-- limit.
local POLICY = '>I1I4I4'
local POLICY_BYTES = 9
local FAIR = 2
local DIVISION = '>I2I2'
local DIVISION_BYTES = 4

local function read_policy()
  if not call.policy_packed then
    return {delays = false, dead_letter_queue = ''}
  end
  local flags, deliveries_max, dead_letter_ttl = struct.unpack(POLICY, call.policy_packed)
  local division_bytes = flags >= FAIR and DIVISION_BYTES or 0
  return {
    delays = flags % 2 == 1,
    deliveries_max = deliveries_max,
    dead_letter_ttl = dead_letter_ttl,
    dead_letter_queue = deliveries_max > 0 and string.sub(call.policy_packed, POLICY_BYTES + division_bytes + 1) or '',
  }
end
