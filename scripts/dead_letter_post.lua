-- Posts dead letters from another queue, in order, and skips those that arrived before, even if the
-- queue was deleted afterwards. Messages of a redrive arrive only in the queue with the epoch that
-- the redrive has seen. If it is gone, they can return, because no later queue has that epoch.
--
-- ARGV  1 name of the queue that they come from
--       2 number of shards and shards per tenant for which shards were assigned (2 bytes each),
--       or empty
--       3 epoch of the queue to which a redrive moves the messages, or empty for dead letters
--       then for each dead letter:
--       its number; its nonce, poster and size class; the rest of its entry; its record;
--       the shards of its tenant
-- Returns {'due'} if due changes must be applied first; {'posted'}; {'absent'} if the queue does
--       not exist or has another epoch; or {'fair', number of shards, shards per tenant}, with
--       nothing posted, if shards must be assigned for these numbers. Fails with NOQUEUE if the queue
--       moves.
assert(#ARGV >= 8 and #ARGV % 5 == 3, 'dead_letter_post: 3 arguments, and 5 for each dead letter')
local source, epoch, last_number = ARGV[1], ARGV[3], tonumber(ARGV[#ARGV - 4])
-- How long the number of the last dead letter from a queue is remembered: longer than forwarding
-- can take.
local REMEMBERED_S = 86400
local RECEIVED = '>I8I8'
local SAMPLED_SOURCES = 4

local is_due
is_due, call.subscription_count = load_queue('n')
local last_arrival = redis.call('HGET', call.received, source)
local last = last_arrival and struct.unpack(RECEIVED, last_arrival) or 0
local is_first = last == 0
if last_number <= last then
  return {'posted'}
elseif not call.revision and redis.call('EXISTS', call.moving) == 1 then
  return redis.error_reply('NOQUEUE the queue moves')
elseif not call.revision or epoch ~= '' and redis.call('HGET', call.queue, 'e') ~= epoch then
  return {'absent'}
elseif is_due and (call.logical_packed or fairness()) then
  return {'due'}
end
local fair = fairness()
if fair and fair.count > 1 and struct.pack('>I2I2', fair.count, fair.per_tenant) ~= ARGV[2] then
  return {'fair', fair.count, fair.per_tenant}
end
local new = {headers = {}, end_seconds = {}, delivery_states = {}, records = {}, candidates = {}, bytes = 0}
for i = 4, #ARGV, 5 do
  local number = tonumber(ARGV[i])
  if number > last then
    last = number
    local index = #new.headers + 1
    new.headers[index], new.records[index] = ARGV[i + 1], ARGV[i + 3]
    new.bytes = new.bytes + size_of_class[string.byte(ARGV[i + 1], -1)]
    new.end_seconds[index] = struct.unpack('>I4', ARGV[i + 2])
    new.delivery_states[index] = string.sub(ARGV[i + 2], 5)
    new.candidates[index] = fair and fair.count > 1 and split_shards(ARGV[i + 4]) or nil
  end
end
post_messages(new)
-- Removes the last numbers of queues that have sent nothing for a long time, a few at a time. The
-- whole hash expires a day after the last dead letter.
if is_first and redis.call('HLEN', call.received) > 0 then
  local sampled = redis.call('HRANDFIELD', call.received, SAMPLED_SOURCES, 'WITHVALUES')
  for i = 1, #sampled, 2 do
    local _, arrived = struct.unpack(RECEIVED, sampled[i + 1])
    if arrived < call.now - REMEMBERED_S * 1000000 then
      redis.call('HDEL', call.received, sampled[i])
    end
  end
end
redis.call('HSET', call.received, source, struct.pack(RECEIVED, last, call.now))
redis.call('EXPIRE', call.received, REMEMBERED_S)
return {'posted'}
