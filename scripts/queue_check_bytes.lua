-- Compares the sum of the sizes of all messages with the stored one, in a queue that has few enough
-- messages to read them in one step.
--
-- ARGV  1 maximum number of messages    2 'repair' to store the sum, else empty
-- Returns {'absent'} if the queue does not exist, or if there are more messages; otherwise {'checked',
--       the sum, the sum that was stored or empty if it was not known}.
assert(#ARGV == 2, 'queue_check_bytes: 2 arguments')
local limit, repairs = tonumber(ARGV[1]), ARGV[2] == 'repair'

load_queue()
if not call.revision or redis.call('HLEN', call.messages) > limit then
  return {'absent'}
end
local sum = 0
for _, set in ipairs({call.ready, call.delayed, call.in_flight}) do
  sum = sum + bytes_of(redis.call('ZRANGE', set, 0, limit))
end
local stored = known_bytes()
if repairs and stored ~= sum then
  redis.call('HSET', call.queue, 'b', decimal(sum))
end
return {'checked', decimal(sum), stored and decimal(stored) or ''}
