-- Delete a queue with all it holds. The memory is given back in the background, so this takes no
-- longer for a million messages than for one.
--
-- The counter stays for a while: whatever the clock does, a queue of the same name goes on behind it.
--
-- KEYS  the queue's, and its grave (string)
-- ARGV  1 a stamp that is worthless without a queue, or nothing    2 how long the counter and the grave stay (s)
-- Returns the stamp that is laid to rest, or nothing: the queue's own, or that of ARGV when the
--       queue is not there.
assert(#KEYS == QUEUE_KEYS + 1 and #ARGV == 2, 'queue_delete: the keys of the queue and one, 2 arguments')
local grave, orphan, kept_s = KEYS[QUEUE_KEYS + 1], ARGV[1], ARGV[2]

local stamp = redis.call('HGET', queue, 's')
if not stamp then
  stamp = orphan
elseif orphan ~= '' then
  return ''
else
  redis.call('UNLINK', queue, messages, ready, held, ends, holds, leases, claims)
  redis.call('EXPIRE', counter, kept_s)
end
local buried = redis.call('GET', grave)
if stamp ~= '' and not (buried and tonumber(buried) >= tonumber(stamp)) then
  -- Frees before anything grows, so that this works when the store is full.
  redis.call('DEL', grave)
  redis.call('SET', grave, stamp, 'EX', kept_s)
end
return stamp
