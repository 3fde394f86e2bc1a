-- Delete a queue with all it holds. The memory is given back in the background, so this takes no
-- longer for a million messages than for one.
--
-- The counter stays for a while: whatever the clock does, a queue of the same name goes on behind it. So does
-- what is known of dead letters that came here; those on their way from here stay until they have arrived.
--
-- KEYS  the queue's, its grave (string), and the last number that it got from each queue (hash)
-- ARGV  1 a stamp that is worthless without a queue, or nothing    2 how long what is to stay does (s)
-- Returns the stamp that is laid to rest, or nothing: the queue's own, or that of ARGV when the
--       queue is not there; and how many dead letters wait to be delivered.
assert(#KEYS == QUEUE_KEYS + 2 and #ARGV == 2, 'queue_delete: the keys of the queue and two, 2 arguments')
local grave, letters, orphan, kept_s = KEYS[QUEUE_KEYS + 1], KEYS[QUEUE_KEYS + 2], ARGV[1], ARGV[2]

local stamp = redis.call('HGET', queue, 's')
if not stamp then
  stamp = orphan
elseif orphan ~= '' then
  return {'', 0}
else
  local last = decimal(math.max(next_number('v'), next_number('o')) - 1)
  redis.call('UNLINK', queue, messages, ready, delayed, held, ends, holds, leases, claims, shards, tenants)
  redis.call('SET', counter, last, 'EX', kept_s)
  redis.call('EXPIRE', letters, kept_s)
end
local buried = redis.call('GET', grave)
if stamp ~= '' and not (buried and tonumber(buried) >= tonumber(stamp)) then
  -- Frees before anything grows, so that this works when the store is full.
  redis.call('DEL', grave)
  redis.call('SET', grave, stamp, 'EX', kept_s)
end
return {stamp, redis.call('LLEN', outbox)}
