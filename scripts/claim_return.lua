-- Give one message of a claim back: free at once, or kept from everybody for a while first.
--
-- KEYS  the queue's
-- ARGV  1 the claim's id    2 the message's key    3 for how long it is kept back (s), 0 for not at all
-- Returns {'again'} when it was busy settling; {'none'} when the claim is not live; else {'done'}, also when
--       the claim does not hold the message (any more).
assert(#KEYS == QUEUE_KEYS and #ARGV == 3, 'claim_return: the keys of the queue, 3 arguments')
local id, key, delay = ARGV[1], ARGV[2], tonumber(ARGV[3])

if settle() then
  return {'again'}
end
if not claim_of(id) then
  return {'none'}
elseif holder_of(key) ~= id then
  return {'done'}
elseif delay == 0 then
  give_back({key}, {hold_of(key)})
else
  keep_back(key, delay)
end
return {'done'}
