-- Posts dead letters from another queue, in order; those that have arrived before are passed over.
--
-- ARGV  1 the queue that they come from
--       2 for which division of a fair queue the shards below were assigned (policy.lua), or nothing
--       then for each dead letter: its number, its nonce, poster and size class, the rest of its entry, its record, the shards of
--       its tenant
-- Returns {'due'} when what is due must be applied first; {'posted'}; {'absent'} when there is no such queue; or {'fair', number of shards, shards per tenant} with nothing posted
--       when the shards must be assigned for another division.
assert(#ARGV >= 7 and #ARGV % 5 == 2, 'dead_letter_post: 2 arguments and fives')
local source = ARGV[1]
-- How long the number of the last dead letter from a queue is remembered: longer than forwarding can take.
local REMEMBERED_S = 86400
local RECEIVED = '>I8I8'
local SAMPLED_SOURCES = 4

local is_due = load_queue()
if not revision then
  return {'absent'}
elseif is_due and (logical_packed or fairness()) then
  return {'due'}
end
local divided = fairness()
if divided and divided.count > 1 and struct.pack('>I2I2', divided.count, divided.per_tenant) ~= ARGV[2] then
  return {'fair', divided.count, divided.per_tenant}
end
local before = redis.call('HGET', received, source)
local last = before and struct.unpack(RECEIVED, before) or 0
local new = {places = {}, stops = {}, deliveries = {}, records = {}, lots = {}}
for i = 3, #ARGV, 5 do
  local number = tonumber(ARGV[i])
  if number > last then
    last = number
    local place = #new.places + 1
    new.places[place], new.records[place] = ARGV[i + 1], ARGV[i + 3]
    new.stops[place] = struct.unpack('>I4', ARGV[i + 2])
    new.deliveries[place] = string.sub(ARGV[i + 2], 5)
    new.lots[place] = divided and divided.count > 1 and shards_in(ARGV[i + 4]) or nil
  end
end
if #new.places == 0 then
  return {'posted'}
end
post(new)
-- Queues that no dead letter has come from for long are forgotten, some at a time, and all of them when none comes any more.
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
