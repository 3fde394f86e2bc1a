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

-- Keeps the holds of these messages, of which there is one at least; returns them packed.
local function keep_holds(keys, held_by)
  local fields, packed = {}, {}
  for i, key in ipairs(keys) do
    local hold = held_by[i]
    packed[i] = struct.pack(HOLD, hold.count, hold.ttl, hold.second) .. hold.claim
    fields[#fields + 1], fields[#fields + 2] = key, packed[i]
  end
  redis.call('HSET', holds, unpack(fields))
  return packed
end

-- An answer has this many bytes of records at most, or one message: it has to arrive in time.
local ANSWER_BYTES_MAX = 512 * 1024
-- So many records are read before anybody has asked how large they are.
local UNMEASURED_MAX = 50

-- How many of these lengths, the first, fit into one answer: one at least.
local function fitting(count, length_of)
  local bytes = 0
  for i = 1, count do
    bytes = bytes + length_of(i)
    if bytes > ANSWER_BYTES_MAX and i > 1 then
      return i - 1
    end
  end
  return count
end

-- The messages of the first of these keys, as many as fit into one answer: three lists, of keys, records and holds,
-- which are packed or false. The record of one that is gone is false.
local function load(keys)
  if #keys > UNMEASURED_MAX then
    keys = {unpack(keys, 1, fitting(#keys, function(i) return redis.call('HSTRLEN', messages, keys[i]) end))}
  elseif #keys == 0 then
    return {keys = {}, records = {}, holds = {}}
  end
  local records = redis.call('HMGET', messages, unpack(keys))
  local packed = redis.call('HMGET', holds, unpack(keys))
  local count = fitting(#keys, function(i) return records[i] and #records[i] or 0 end)
  if count < #keys then
    keys, records, packed = {unpack(keys, 1, count)}, {unpack(records, 1, count)}, {unpack(packed, 1, count)}
  end
  return {keys = keys, records = records, holds = packed}
end

-- The hold of a loaded message, or what it is before the first claim.
local function hold_at(loaded, place)
  local packed = loaded.holds[place]
  if packed then
    return read_hold(packed)
  end
  local record = loaded.records[place]
  local created, ttl = created_at(rank_of(loaded.keys[place]), record), ttl_in(record)
  return {count = 0, ttl = ttl, second = math.ceil(created / 1000000) + ttl, claim = ''}
end

-- Appends loaded messages to an answer: key, record, hold or nothing. Those that are gone are left out.
local function show(answer, loaded)
  local keys, packed = loaded.keys, loaded.holds
  local size = #answer
  for i, record in ipairs(loaded.records) do
    if record then
      answer[size + 1], answer[size + 2], answer[size + 3] = keys[i], record, packed[i] or ''
      size = size + 3
    end
  end
end
