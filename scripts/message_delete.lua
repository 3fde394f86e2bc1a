-- Delete messages by their keys; those that are not there are passed over.
--
-- KEYS  the queue's
-- ARGV  1 how many claims follow, one of which must hold each message; nothing if it takes no claim
--       then the claims, then the messages' keys
-- Returns {'again'} when it was busy settling; {'unclaimed'}, with nothing deleted, when a message is
--       not under one of the claims; else {'done'}.
assert(#KEYS == QUEUE_KEYS and #ARGV >= 2, 'message_delete: the keys of the queue, 2 arguments or more')
local claims_given = tonumber(ARGV[1])
local allowed, keys = {}, {}
for i = 2, #ARGV do
  if i <= (claims_given or 0) + 1 then
    allowed[ARGV[i]] = true
  else
    keys[#keys + 1] = ARGV[i]
  end
end

if settle() then
  return {'again'}
end
if claims_given then
  for i, packed in ipairs(redis.call('HMGET', holds, unpack(keys))) do
    local held_by = packed and read_hold(packed).claim
    if not allowed[held_by] and redis.call('HEXISTS', messages, keys[i]) == 1 then
      return {'unclaimed'}
    end
  end
end
remove(keys)
compact()
return {'done'}
