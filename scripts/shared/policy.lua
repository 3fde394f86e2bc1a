-- What scripts obey of a queue's metadata, packed by the driver (storage/record.rs): flags, whether messages are delayed here (1)
-- and whether the queue is fair (2); the maximum number of deliveries and the ttl (s) of dead letters (0: what they have left); in
-- a fair queue the numbers of shards and of shards per tenant; the queue for dead letters.
local POLICY = '>I1I4I4'
local POLICY_BYTES = 9
local FAIR = 2
local DIVISION = '>I2I2'
local DIVISION_BYTES = 4

local function policy()
  if not policy_packed then
    return {delays = false, target = ''}
  end
  local flags, count_max, dead_letter_ttl = struct.unpack(POLICY, policy_packed)
  local division_bytes = flags >= FAIR and DIVISION_BYTES or 0
  return {
    delays = flags % 2 == 1,
    count_max = count_max,
    dead_letter_ttl = dead_letter_ttl,
    target = string.sub(policy_packed, POLICY_BYTES + division_bytes + 1),
  }
end
