-- Get messages by their keys.
--
-- KEYS  the queue's
-- ARGV  the messages' keys
-- Returns {'again'} when it was busy settling; else {'found', now, how many keys it got to before the answer
--       grew too large, key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV >= 1, 'message_get: the keys of the queue, 1 argument or more')

if settle() then
  return {'again'}
end
local loaded = load(ARGV)
local found = {'found', decimal(now), #loaded.keys}
show(found, loaded)
return found
