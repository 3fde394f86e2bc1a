-- Pop the oldest messages of a queue: hand them out and delete them in one step.
--
-- KEYS  the queue's
-- ARGV  1 how many at most
-- Returns {'again'} when it was busy settling, with nothing popped; else {'popped', now, key, record, ...}.
assert(#KEYS == 5 and #ARGV == 1, 'message_pop: 5 keys, 1 argument')
local limit = tonumber(ARGV[1])

if settle() then
  return {'again'}
end
local popped = {'popped', decimal(now)}
local keys = redis.call('ZRANGE', ready, 0, limit - 1)
if #keys > 0 then
  local records = redis.call('HMGET', messages, unpack(keys))
  for i, key in ipairs(keys) do
    popped[#popped + 1] = key
    popped[#popped + 1] = records[i]
  end
  redis.call('HDEL', messages, unpack(keys))
  redis.call('ZREM', ready, unpack(keys))
  compact()
end
return popped
