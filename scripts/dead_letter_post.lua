-- Posts dead letters from another queue, in order, and skips those that arrived before, even if the
-- queue was deleted afterwards. Messages of a redrive are refused for good if the queue does not
-- exist, so that they can return. A queue that is created again gets none of them.
--
-- ARGV  1 name of the queue that they come from
--       2 number of shards and shards per tenant for which shards were assigned (2 bytes each),
--       or empty
--       3 'redriven' for messages of a redrive, else empty
--       then for each dead letter:
--       its number; its nonce, poster and size class; the rest of its entry; its record;
--       the shards of its tenant
-- Returns {'due'} if due changes must be applied first; {'posted'}; {'absent'} if the queue does
--       not exist, or has refused these messages of a redrive before; or {'fair', number of shards,
--       shards per tenant}, with nothing posted, if shards must be assigned for these numbers. Fails with
--       NOQUEUE if the queue moves, so that it does not refuse messages of a redrive.
assert(#ARGV >= 8 and #ARGV % 5 == 3, 'dead_letter_post: 3 arguments, and 5 for each dead letter')
local source, is_redriven = ARGV[1], ARGV[3] == 'redriven'
local first_number, last_number = tonumber(ARGV[4]), tonumber(ARGV[#ARGV - 4])
-- How long the number of the last dead letter from a queue is remembered: longer than forwarding
-- can take.
local REMEMBERED_S = 86400
local RECEIVED = '>I8I8'
local SAMPLED_SOURCES = 4
-- The field of a source with the number of the last message of a redrive that was refused. No name
-- of a queue ends in this.
local REFUSED = '~'

-- Returns the number in a field of `received`, 0 if it has none.
local function number_of(field)
  local value = redis.call('HGET', received, field)
  return value and struct.unpack(RECEIVED, value) or 0
end

local function remember(field, number)
  redis.call('HSET', received, field, struct.pack(RECEIVED, number, now))
  redis.call('EXPIRE', received, REMEMBERED_S)
end

local is_due
is_due, subscription_count = load_queue('n')
local last = number_of(source)
local is_first = last == 0
if last_number <= last then
  return {'posted'}
elseif is_redriven and first_number <= number_of(source .. REFUSED) then
  return {'absent'}
elseif not revision then
  if redis.call('EXISTS', moving) == 1 then
    return redis.error_reply('NOQUEUE the queue moves')
  end
  if is_redriven then
    remember(source .. REFUSED, last_number)
  end
  return {'absent'}
elseif is_due and (logical_packed or fairness()) then
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
    new.bytes = new.bytes + size_of_class(string.byte(ARGV[i + 1], -1))
    new.end_seconds[index] = struct.unpack('>I4', ARGV[i + 2])
    new.delivery_states[index] = string.sub(ARGV[i + 2], 5)
    new.candidates[index] = fair and fair.count > 1 and split_shards(ARGV[i + 4]) or nil
  end
end
post_messages(new)
-- Removes the last numbers of queues that have sent nothing for a long time, a few at a time. The
-- whole hash expires a day after the last dead letter.
if is_first and redis.call('HLEN', received) > 0 then
  local sampled = redis.call('HRANDFIELD', received, SAMPLED_SOURCES, 'WITHVALUES')
  for i = 1, #sampled, 2 do
    local _, arrived = struct.unpack(RECEIVED, sampled[i + 1])
    if arrived < now - REMEMBERED_S * 1000000 then
      redis.call('HDEL', received, sampled[i])
    end
  end
end
remember(source, last)
return {'posted'}
