-- What claims change about a message, in `holds` from its first claim on: how often it was claimed, its
-- ttl (s), the second in which it ends, and the claim that holds it, or the lease (see claims.lua), if one does.
local HOLD = '>I4I4I8'
local HOLD_BYTES = 16

local function read_hold(hold)
  local count, ttl, second = struct.unpack(HOLD, hold)
  return {count = count, ttl = ttl, second = second, claim = string.sub(hold, HOLD_BYTES + 1)}
end

local function hold_of(key)
  local hold = redis.call('HGET', holds, key)
  return hold and read_hold(hold) or nil
end

-- Where a message's creation time (µs) and ttl (s) stand in its record.
local CREATED_AND_TTL = '>I8xI4'
local CREATED = 4

-- The hold of a message, or what it is before the first claim.
local function hold_or_new(key)
  local hold = hold_of(key)
  if hold then
    return hold
  end
  local created, ttl = struct.unpack(CREATED_AND_TTL, redis.call('HGET', messages, key), CREATED)
  return {count = 0, ttl = ttl, second = math.ceil(created / 1000000) + ttl, claim = ''}
end

local function keep_hold(key, hold)
  redis.call('HSET', holds, key, struct.pack(HOLD, hold.count, hold.ttl, hold.second) .. hold.claim)
end

-- An answer has this many bytes of records at most, or one message: it has to arrive in time.
local ANSWER_BYTES_MAX = 512 * 1024

-- The first of the keys, as many as fit into one answer.
local function fitting(keys)
  local bytes = 0
  for i, key in ipairs(keys) do
    bytes = bytes + redis.call('HSTRLEN', messages, key)
    if bytes > ANSWER_BYTES_MAX and i > 1 then
      return {unpack(keys, 1, i - 1)}
    end
  end
  return keys
end

-- Appends messages to an answer: key, record, hold or nothing. Those that are gone are left out.
local function show(answer, keys)
  if #keys == 0 then
    return
  end
  local records = redis.call('HMGET', messages, unpack(keys))
  local held_by = redis.call('HMGET', holds, unpack(keys))
  for i, key in ipairs(keys) do
    if records[i] then
      answer[#answer + 1] = key
      answer[#answer + 1] = records[i]
      answer[#answer + 1] = held_by[i] or ''
    end
  end
end

