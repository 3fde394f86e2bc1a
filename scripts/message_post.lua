-- Post the messages of one request: all of them, in order, behind every other, or none.
--
-- Nothing is settled first: a post only adds.
--
-- KEYS  the queue's; the last answer given to this lane (string); the answer that is kept for the request's
--       idempotency key (string), if it has one
-- ARGV  1 the revision that the caller has seen    2 the lane's sequence number
--       3 how long the lane's answer is remembered (ms)
--       4 a digest of what came with the idempotency key, or nothing    5 how long its answer is kept (ms)
--       then for each message: its nonce (5 bytes) and its delay (s, 4 bytes), its record behind the creation time
-- Returns {'posted', the messages' keys, joined}; {'stale', revision, metadata} or {'stale'} when the queue is
--       not as seen; {'late'} for a sequence number that the lane has left behind; {'other'} when
--       the idempotency key came with something else before.
assert(#KEYS == QUEUE_KEYS + 1 or #KEYS == QUEUE_KEYS + 2, 'message_post: the keys of the queue and one or two')
assert(#ARGV >= 7 and #ARGV % 2 == 1, 'message_post: 5 arguments and pairs')
local answer, kept_answer = KEYS[QUEUE_KEYS + 1], KEYS[QUEUE_KEYS + 2]
local seen, sequence, remembered_ms, digest, kept_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local FIRST = 6
local NONCE_BYTES = 5
local SEQUENCE = '>I8'
local SEQUENCE_BYTES = 8

local last_answer = redis.call('GET', answer)
if last_answer then
  local answered = struct.unpack(SEQUENCE, last_answer)
  if answered == sequence then
    return {'posted', string.sub(last_answer, SEQUENCE_BYTES + 1)}
  elseif answered > sequence then
    return {'late'}
  end
end
local first_answer = kept_answer and redis.call('GET', kept_answer)
if first_answer then
  if string.sub(first_answer, 1, #digest) ~= digest then
    return {'other'}
  end
  return {'posted', string.sub(first_answer, #digest + 1)}
end

local revision = redis.call('HGET', queue, 'v')
if not revision then
  return {'stale'}
elseif revision ~= seen then
  return {'stale', revision, redis.call('HGET', queue, 'm')}
end

local head = '\149\1\207' .. struct.pack('>I8', now)
local now_s = math.ceil(now / 1000000)
local nonces, delays, records, seconds = {}, {}, {}, {}
for i = FIRST, #ARGV, 2 do
  local tail = ARGV[i + 1]
  nonces[#nonces + 1] = string.sub(ARGV[i], 1, NONCE_BYTES)
  delays[#delays + 1] = struct.unpack('>I4', ARGV[i], NONCE_BYTES + 1)
  records[#records + 1] = head .. tail
  seconds[#seconds + 1] = now_s + struct.unpack('>I4', tail, 2)
end
local keys = table.concat(post(nonces, delays, records, seconds))
redis.call('SET', answer, struct.pack(SEQUENCE, sequence) .. keys, 'PX', remembered_ms)
if kept_answer then
  redis.call('SET', kept_answer, digest .. keys, 'PX', kept_ms)
end
return {'posted', keys}
