-- Delete one message: under a claim by naming it, a free one by naming none.
--
-- KEYS  the queue's
-- ARGV  1 the message's key    2 the claim, or nothing    3 'malformed' when what was named is no claim id
-- Returns {'again'} when it was busy settling; {'done'} when it is gone; with nothing deleted {'held'} when
--       it takes a claim to delete it, {'free'} when it is under no claim, {'other'} when it is under
--       another, {'unknown'} when the claim is not live.
assert(#KEYS == QUEUE_KEYS and #ARGV == 3, 'message_acknowledge: the keys of the queue, 3 arguments')
local key, claim, malformed = ARGV[1], ARGV[2], ARGV[3] == 'malformed'

if settle() then
  return {'again'}
end
if redis.call('HEXISTS', messages, key) == 0 then
  return {'done'}
end
local holder = holder_of(key)
if malformed then
  return {'unknown'}
elseif claim == '' and holder ~= '' then
  return {'held'}
elseif claim ~= '' and holder == '' then
  return {'free'}
elseif claim ~= holder then
  return {redis.call('HEXISTS', claims, claim) == 1 and 'other' or 'unknown'}
end
remove({key})
compact()
return {'done'}
