-- Show a live claim with the messages that it still holds.
--
-- KEYS  the queue's
-- ARGV  1 the claim's id
-- Returns {'again'} when it was busy settling; {'none', 0}; else {'claim', 0, now, ttl, since, '', key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'claim_get: the keys of the queue, 1 argument')
local id = ARGV[1]

if settle() then
  return {'again'}
end
return show_claim(id, 0)
