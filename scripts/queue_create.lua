-- Create a queue, under a stamp that its registration has given.
--
-- KEYS  the queue's, and its grave: the last stamp that was laid to rest (string)
-- ARGV  1 the stamp    2 metadata    3 what scripts obey of it, or nothing
-- Returns 'created'; 'existed'; or 'buried' when the stamp is no longer worth anything, so that a
--       creation which comes late cannot leave a queue that is registered nowhere.
assert(#KEYS == QUEUE_KEYS + 1 and #ARGV == 3, 'queue_create: the keys of the queue and one, 3 arguments')
local grave, stamp, metadata, rules = KEYS[QUEUE_KEYS + 1], ARGV[1], ARGV[2], ARGV[3]

local own = redis.call('HGET', queue, 's')
if own == stamp then
  return 'created'
elseif own then
  -- Its name was registered anew meanwhile: a deletion must find the stamp that the register has.
  if tonumber(own) < tonumber(stamp) then
    redis.call('HSET', queue, 's', stamp)
  end
  return 'existed'
end
local buried = redis.call('GET', grave)
if buried and tonumber(stamp) <= tonumber(buried) then
  return 'buried'
end
local revision = decimal(next_number('v'))
redis.call('SET', counter, revision)
redis.call('HSET', queue, 'm', metadata, 'v', revision, 's', stamp)
keep_policy(rules)
return 'created'
