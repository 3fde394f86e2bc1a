-- What scripts obey of a queue's metadata, packed by the driver: flags, whether messages are delayed here (1) and whether the
-- queue is fair (2); how often a message is given out, and if that is bounded, how long (s) dead letters live (0: as long
-- as they would have); of a fair queue how many shards it has and how many of them a tenant; the queue for dead letters.
local POLICY = '>I1I4I4'
local POLICY_BYTES = 9
local FAIR, DIVISION = 2, '>I2I2'
local DIVISION_BYTES = 4

local function policy()
  local packed, divided = unpack(redis.call('HMGET', queue, 'p', 'f'))
  known_fairness = read_fairness(divided)
  if not packed then
    return {delays = false, target = ''}
  end
  local flags, count_max, letter_ttl = struct.unpack(POLICY, packed)
  local division_bytes = flags >= FAIR and DIVISION_BYTES or 0
  return {
    delays = flags % 2 == 1,
    count_max = count_max,
    letter_ttl = letter_ttl,
    target = string.sub(packed, POLICY_BYTES + division_bytes + 1),
  }
end

-- Whether that makes a queue fair.
local function divides(packed)
  return packed ~= '' and string.byte(packed) >= FAIR
end

local function keep_policy(packed)
  if packed == '' then
    redis.call('HDEL', queue, 'p')
  else
    redis.call('HSET', queue, 'p', packed)
  end
  local divided = fairness()
  if divides(packed) then
    divided = divided or {boundary = last_rank(), turn = UNSHARDED, passes = 0}
    divided.count, divided.per_tenant = struct.unpack(DIVISION, packed, POLICY_BYTES + 1)
    keep_fairness(divided)
  elseif divided then
    divided.count, divided.per_tenant = 1, 1
    keep_fairness(divided)
  else
    redis.call('HDEL', queue, 'f')
  end
end

