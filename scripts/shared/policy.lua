-- What scripts obey of a queue's metadata, packed by the driver: whether messages are delayed here, how often
-- a message is given out, and if that is bounded, how long (s) dead letters live (0: as long as they would
-- have) and the queue that they go to.
local POLICY = '>I1I4I4'
local POLICY_BYTES = 9

local function policy()
  local packed = redis.call('HGET', queue, 'p')
  if not packed then
    return {delays = false, target = ''}
  end
  local delays, count_max, letter_ttl = struct.unpack(POLICY, packed)
  return {
    delays = delays == 1,
    count_max = count_max,
    letter_ttl = letter_ttl,
    target = string.sub(packed, POLICY_BYTES + 1),
  }
end

local function keep_policy(packed)
  if packed == '' then
    redis.call('HDEL', queue, 'p')
  else
    redis.call('HSET', queue, 'p', packed)
  end
end

