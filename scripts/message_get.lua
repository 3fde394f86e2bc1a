-- Get messages by their keys.
--
-- KEYS  the queue's
-- ARGV  the messages' keys
-- Returns {'again'} when it was busy settling; else {'found', now, key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV >= 1, 'message_get: the keys of the queue, 1 argument or more')

if settle() then
  return {'again'}
end
local found = {'found', decimal(now)}
show(found, ARGV)
return found
