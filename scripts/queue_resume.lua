-- Resumes a paused queue, and notifies waiters of its available messages.
--
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, also if the queue is not
--       paused or does not exist.
if load_queue() then
  return {'due'}
end
if redis.call('HDEL', call.queue, 'z') == 1 then
  notify(redis.call('ZCARD', call.ready))
end
return {'done'}
