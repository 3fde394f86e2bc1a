-- Count the messages of a queue.
--
-- KEYS  the queue's
-- Returns {'again'} when it was busy settling; else {'count', how many}.
assert(#KEYS == 5 and #ARGV == 0, 'message_count: 5 keys, no argument')

if settle() then
  return {'again'}
end
return {'count', redis.call('HLEN', messages)}
