-- End a claim: what it still holds is free again, in its old place.
--
-- KEYS  the queue's
-- ARGV  1 the claim's id
-- Returns {'again'} when it was busy settling; else {'done'}, also for a claim that is not live.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'claim_release: the keys of the queue, 1 argument')
local id = ARGV[1]

if settle() then
  return {'again'}
end
release(id)
return {'done'}
