-- Keeps what scripts obey of new metadata.
local function is_fair(packed)
  return packed ~= '' and string.byte(packed) >= FAIR
end

local function keep_policy(packed)
  if packed == '' then
    redis.call('HDEL', queue, 'p')
  else
    redis.call('HSET', queue, 'p', packed)
  end
  local divided = fairness()
  if is_fair(packed) then
    divided = divided or {boundary = last_visible, turn = UNSHARDED, passes = 0}
    divided.count, divided.per_tenant = struct.unpack(DIVISION, packed, POLICY_BYTES + 1)
    keep_fairness(divided)
  elseif divided then
    divided.count, divided.per_tenant = 1, 1
    keep_fairness(divided)
  else
    redis.call('HDEL', queue, 'f')
  end
end
