-- Posts dead letters from another queue, in order, and skips those that arrived before, even if the
-- queue was deleted afterwards.
--
-- ARGV  1 name of the queue that they come from
--       2 number of shards and shards per tenant for which shards were assigned (2 bytes each),
--       or empty
--       then for each dead letter:
--       its number; its nonce, poster and size class; the rest of its entry; its record;
--       the shards of its tenant
-- Returns {'due'} if due changes must be applied first; {'posted'}; {'absent'} if the queue does
--       not exist; or {'fair', number of shards, shards per tenant}, with nothing posted, if shards
--       must be assigned for these numbers.
assert(#ARGV >= 7 and #ARGV % 5 == 2, 'dead_letter_post: 2 arguments, and 5 for each dead letter')
local source = ARGV[1]
-- How long the number of the last dead letter from a queue is remembered: longer than forwarding
-- can take.
local REMEMBERED_S = 86400
local RECEIVED = '>I8I8'
local SAMPLED_SOURCES = 4

local is_due = load_queue()
local before = redis.call('HGET', received, source)
local last = before and struct.unpack(RECEIVED, before) or 0
if tonumber(ARGV[#ARGV - 4]) <= last then
  return {'posted'}
elseif not revision then
  return {'absent'}
elseif is_due and (logical_packed or fairness()) then
  return {'due'}
end
local fair = fairness()
if fair and fair.count > 1 and struct.pack('>I2I2', fair.count, fair.per_tenant) ~= ARGV[2] then
  return {'fair', fair.count, fair.per_tenant}
end
local new = {headers = {}, end_seconds = {}, delivery_states = {}, records = {}, candidates = {}}
for i = 3, #ARGV, 5 do
  local number = tonumber(ARGV[i])
  if number > last then
    last = number
    local index = #new.headers + 1
    new.headers[index], new.records[index] = ARGV[i + 1], ARGV[i + 3]
    new.end_seconds[index] = struct.unpack('>I4', ARGV[i + 2])
    new.delivery_states[index] = string.sub(ARGV[i + 2], 5)
    new.candidates[index] = fair and fair.count > 1 and split_shards(ARGV[i + 4]) or nil
  end
end
post_messages(new)
-- Removes the last numbers of queues that have sent nothing for a long time, a few at a time. The
-- whole hash expires a day after the last dead letter.
if not before and redis.call('HLEN', received) > 0 then
  local sampled = redis.call('HRANDFIELD', received, SAMPLED_SOURCES, 'WITHVALUES')
  for i = 1, #sampled, 2 do
    local _, arrived = struct.unpack(RECEIVED, sampled[i + 1])
    if arrived < now - REMEMBERED_S * 1000000 then
      redis.call('HDEL', received, sampled[i])
    end
  end
end
redis.call('HSET', received, source, struct.pack(RECEIVED, last, now))
redis.call('EXPIRE', received, REMEMBERED_S)
return {'posted'}
