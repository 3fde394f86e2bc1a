-- Stores the packed policy of new metadata.
local function is_fair(packed)
  return packed ~= '' and string.byte(packed) >= FAIR
end

local function store_policy(packed)
  if packed == '' then
    redis.call('HDEL', call.queue, 'p')
  else
    redis.call('HSET', call.queue, 'p', packed)
  end
  local fair = fairness()
  if is_fair(packed) then
    fair = fair or {boundary = call.last_visible, turn = UNSHARDED, preferred_in_a_row = 0}
    fair.count, fair.per_tenant = struct.unpack(DIVISION, packed, POLICY_BYTES + 1)
    store_fairness(fair)
  elseif fair then
    fair.count, fair.per_tenant = 1, 1
    store_fairness(fair)
  else
    redis.call('HDEL', call.queue, 'f')
  end
end
