-- Pauses a queue: until it is resumed, claims and pops get no messages.
--
-- Returns 'done', or 'absent' if the queue does not exist.
if redis.call('EXISTS', call.queue) == 0 then
  return 'absent'
end
redis.call('HSET', call.queue, 'z', 1)
return 'done'
