-- Live claims: in `leases` by their end, and in `claims` with their ttl (s), the time (µs) since which
-- it runs, and the keys of the messages that they were given.
local CLAIM = '>I4I8'
local CLAIM_BYTES = 12

-- A claim's ttl, the time since which it runs, and its keys; nothing when it is not live.
local function claim_of(id)
  local claim = redis.call('HGET', claims, id)
  if claim then
    local ttl, since = struct.unpack(CLAIM, claim)
    return ttl, since, keys_of(string.sub(claim, CLAIM_BYTES + 1))
  end
end

local function keep_claim(id, ttl, keys)
  redis.call('HSET', claims, id, struct.pack(CLAIM, ttl, now) .. table.concat(keys))
  redis.call('ZADD', leases, now + ttl * 1000000, id)
end

-- Of a claim's messages, those that it still holds.
local function still_held(id, keys)
  local held_keys = {}
  for _, key in ipairs(keys) do
    local hold = hold_of(key)
    if hold and hold.claim == id then
      held_keys[#held_keys + 1] = key
    end
  end
  return held_keys
end

-- A claim as it is answered, with the messages that it still holds.
local function show_claim(id)
  local ttl, since, keys = claim_of(id)
  if not ttl then
    return {'none'}
  end
  local claim = {'claim', decimal(now), ttl, decimal(since)}
  show(claim, still_held(id, keys))
  return claim
end

-- Puts the messages that a claim still holds back to where they were, and forgets the claim; says how
-- many they were.
local function release(id)
  local _, _, given = claim_of(id)
  redis.call('ZREM', leases, id)
  redis.call('HDEL', claims, id)
  local keys = given and still_held(id, given) or {}
  for _, key in ipairs(keys) do
    redis.call('ZREM', held, key)
    redis.call('ZADD', ready, rank_of(key), key)
    local hold = hold_of(key)
    hold.claim = ''
    keep_hold(key, hold)
  end
  return #keys
end

