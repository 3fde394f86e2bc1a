-- Deletes a queue with all that it holds. Redis frees the memory in the background, so this takes no longer for a million messages
-- than for one.
--
-- The tombstone remains for a while: whatever the clock does, a queue of the same name continues behind it. So does what is known
-- of dead letters that came here; those on their way from here remain until they have arrived.
--
-- ARGV  1 a registration version that has no queue, or nothing    2 for how long what remains does (s)
-- Returns the registration version that has ended, or nothing: the queue's own, or that of ARGV when the queue does not exist; and
--       the number of dead letters to forward.
assert(#ARGV == 2, 'queue_delete: 2 arguments')
local orphan, kept_s = ARGV[1], ARGV[2]

load_queue()
local version, last_letter = unpack(redis.call('HMGET', queue, 's', 'o'))
local waiting = redis.call('LLEN', outbox)
local last
if not version then
  version = orphan
elseif orphan ~= '' then
  return {'', 0}
else
  last = math.max(tonumber(revision), tonumber(last_letter) or 0, last_visible, now - 1)
  redis.call('UNLINK', queue, messages, ready, in_flight, delayed, expirations, leases, claims, shards, tenants,
    idempotency, idempotency_expirations)
  redis.call('EXPIRE', received, kept_s)
end
local deleted, last_before = unpack(redis.call('HMGET', tombstone, 'v', 'c'))
if version ~= '' and not (deleted and tonumber(deleted) >= tonumber(version)) then
  -- Frees before anything grows, so that this works when the store is full.
  redis.call('DEL', tombstone)
  redis.call('HSET', tombstone, 'v', version, 'c', decimal(math.max(last or 0, tonumber(last_before) or 0)))
  redis.call('EXPIRE', tombstone, kept_s)
end
if waiting == 0 then
  redis.call('ZREM', due, queue_tag())
end
return {version, waiting}
