-- Post the messages of one request: all of them, in order, behind every other, or none.
--
-- Nothing is settled first: a post only adds.
--
-- KEYS  the queue's, and the last answer given to this lane (string)
-- ARGV  1 the revision that the caller has seen    2 the lane's sequence number
--       3 how long the answer is remembered (ms)
--       then for each message: its nonce (5 bytes), its record behind the creation time
-- Returns {'posted', first rank}; {'stale', revision, metadata} or {'stale'} when the queue is not as
--       seen; {'late'} for a sequence number that the lane has left behind.
assert(#KEYS == QUEUE_KEYS + 1 and #ARGV >= 5 and #ARGV % 2 == 1, 'message_post: the keys of the queue and one, 3 arguments and pairs')
local answer, seen, sequence, remembered_ms = KEYS[QUEUE_KEYS + 1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local FIRST = 4
local BATCH = 1000

local last_answer = redis.call('GET', answer)
if last_answer then
  local answered, first = string.match(last_answer, '(%d+) (%d+)')
  if tonumber(answered) == sequence then
    return {'posted', first}
  elseif tonumber(answered) > sequence then
    return {'late'}
  end
end

local revision = redis.call('HGET', queue, 'v')
if not revision then
  return {'stale'}
elseif revision ~= seen then
  return {'stale', revision, redis.call('HGET', queue, 'm')}
end

local first = next_rank()
local head = '\149\1\207' .. struct.pack('>I8', now)
local fields, members, ending = {}, {}, {}
local now_s = math.ceil(now / 1000000)
local rank = first
for i = FIRST, #ARGV, 2 do
  local tail = ARGV[i + 1]
  local key = string.sub(struct.pack('>I8', rank), 2) .. ARGV[i]
  fields[#fields + 1] = key
  fields[#fields + 1] = head .. tail
  members[#members + 1] = rank
  members[#members + 1] = key
  local second = now_s + struct.unpack('>I4', tail, 2)
  local keys = ending[second] or {}
  keys[#keys + 1] = key
  ending[second] = keys
  rank = rank + 1
end

redis.call('SET', counter, decimal(rank - 1))
for from = 1, #fields, 2 * BATCH do
  local to = math.min(from + 2 * BATCH - 1, #fields)
  redis.call('HSET', messages, unpack(fields, from, to))
  redis.call('ZADD', ready, unpack(members, from, to))
end
for second, keys in pairs(ending) do
  note_end(second, keys)
end
redis.call('SET', answer, string.format('%.0f %.0f', sequence, first), 'PX', remembered_ms)
return {'posted', decimal(first)}
