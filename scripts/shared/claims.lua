-- Live claims: in `leases` by their end, and in `claims` with their ttl (s), the time (µs) since which
-- it runs, and the keys of the messages that they were given. A message that was given back for later is
-- in `leases` too, under a name that no claim has; its lease holds it, and nobody has the lease.
local CLAIM = '>I4I8'
local CLAIM_BYTES = 12
local CLAIM_ID_BYTES = 16
local NOBODY = '~'

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

-- The claim that a message is under, or nothing.
local function holder_of(key)
  local hold = hold_of(key)
  return hold and #hold.claim == CLAIM_ID_BYTES and hold.claim or ''
end

-- Of a lease's messages, those that it still holds, and their holds.
local function still_held(lease, keys)
  local held_keys, held_by = {}, {}
  local packed = #keys > 0 and redis.call('HMGET', holds, unpack(keys)) or {}
  for i, key in ipairs(keys) do
    local hold = packed[i] and read_hold(packed[i])
    if hold and hold.claim == lease then
      held_keys[#held_keys + 1], held_by[#held_by + 1] = key, hold
    end
  end
  return held_keys, held_by
end

-- A claim as it is answered, with how many dead letters wait, which of its messages were never claimed before (a '1' for each
-- that was not, in a new claim), and loaded messages.
local function shown_claim(letters, ttl, since, fresh, loaded)
  local claim = {'claim', letters, decimal(now), ttl, decimal(since), fresh}
  show(claim, loaded)
  return claim
end

-- A claim as it is answered, with the messages that it still holds.
local function show_claim(id, letters)
  local ttl, since, keys = claim_of(id)
  if not ttl then
    return {'none', letters}
  end
  local loaded = load((still_held(id, keys)))
  return shown_claim(letters, ttl, since, '', loaded)
end

-- Puts messages that are held back to where they were.
local function give_back(keys, held_by)
  if #keys == 0 then
    return
  end
  for _, hold in ipairs(held_by) do
    hold.claim = ''
  end
  move(keys, held, ready)
  keep_holds(keys, held_by)
  tell(#keys)
end

-- Keeps a message that is held from everybody, under no claim, for so long (s).
local function keep_back(key, delay)
  local lease = NOBODY .. key
  -- Frees before anything grows, so that this works when the store is full.
  redis.call('ZREM', leases, lease)
  local hold = hold_of(key)
  hold.claim = lease
  keep_holds({key}, {hold})
  redis.call('ZADD', leases, now + delay * 1000000, lease)
  tell(0)
end

-- Gives back the messages that a lease still holds, and forgets it; says how many they were.
local function release(lease)
  local given
  if #lease == CLAIM_ID_BYTES then
    local _, _, keys = claim_of(lease)
    given = keys or {}
  else
    given = {string.sub(lease, #NOBODY + 1)}
  end
  redis.call('ZREM', leases, lease)
  redis.call('HDEL', claims, lease)
  local keys, held_by = still_held(lease, given)
  give_back(keys, held_by)
  return #keys
end

