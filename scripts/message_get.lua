-- Get messages by their keys.
--
-- KEYS  the queue's
-- ARGV  the messages' keys
-- Returns {'again'} when it was busy settling; else {'found', now, record or false, ...}.
assert(#KEYS == 5 and #ARGV >= 1, 'message_get: 5 keys, 1 argument or more')

if settle() then
  return {'again'}
end
return {'found', decimal(now), unpack(redis.call('HMGET', messages, unpack(ARGV)))}
