-- Delete messages by their keys; those that are not there are passed over.
--
-- KEYS  the queue's
-- ARGV  the messages' keys
-- Returns {'again'} when it was busy settling; else {'done'}.
assert(#KEYS == 5 and #ARGV >= 1, 'message_delete: 5 keys, 1 argument or more')

if settle() then
  return {'again'}
end
if redis.call('HDEL', messages, unpack(ARGV)) > 0 then
  redis.call('ZREM', ready, unpack(ARGV))
  compact()
end
return {'done'}
