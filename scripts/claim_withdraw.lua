-- Take a claim back of which its maker never heard: its messages are free again, in their old places, and do not
-- count as given out by it.
--
-- KEYS  the queue's
-- ARGV  1 the claim's id
-- Returns {'again'} when it was busy settling; else {'done'}, also for a claim that is not live.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'claim_withdraw: the keys of the queue, 1 argument')
local id = ARGV[1]

if settle() then
  return {'again'}
end
local _, _, keys = claim_of(id)
redis.call('ZREM', leases, id)
redis.call('HDEL', claims, id)
local held_keys, held_by = still_held(id, keys or {})
if policy().target ~= '' then
  for _, hold in ipairs(held_by) do
    hold.count = math.max(hold.count - 1, 0)
  end
end
give_back(held_keys, held_by)
return {'done'}
