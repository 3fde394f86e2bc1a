-- Deletes one message: a claimed one if its claim is named, an available one if none is.
--
-- ARGV  1 the message's key    2 the claim, or nothing    3 'malformed' if something was named that is no claim id
-- Returns {'due'} when something is due; {'done'} when the message is gone; with nothing deleted {'held'} when a claim must be
--       named, {'free'} when the message is under no claim, {'other'} when it is under another, {'unknown'} when the named claim
--       is not live.
assert(#ARGV == 3, 'message_acknowledge: 3 arguments')
local key, claim, malformed = ARGV[1], ARGV[2], ARGV[3] == 'malformed'

if load_queue() then
  return {'due'}
end
local entry, set = find_entry(key, {in_flight, ready, delayed})
if not entry then
  return {'done'}
end
local holder = set == in_flight and claim_in(entry) or NO_CLAIM
if malformed then
  return {'unknown'}
elseif claim == '' and holder ~= NO_CLAIM then
  return {'held'}
elseif claim ~= '' and holder == NO_CLAIM then
  return {'free'}
elseif claim ~= '' and claim ~= holder then
  return {redis.call('HEXISTS', claims, claim) == 1 and 'other' or 'unknown'}
end
remove(set, {entry})
forget_empty_blocks(1)
return {'done'}
