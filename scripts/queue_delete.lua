-- Deletes a queue with everything in it. Redis frees the memory in the background, so the time does
-- not depend on the number of messages.
--
-- The tombstone is kept for a while, so that a new queue of the same name continues at higher
-- numbers, whatever the clock does. Records of dead letters received from other queues are kept as
-- long. Dead letters in the outbox are kept until they have been delivered.
--
-- ARGV  1 registration version that has no queue, or empty to delete the queue    2 how long the
--       tombstone is kept (s)    3 last number that the queue may have assigned in another store, or 0
-- Returns {registration version that has ended or empty, number of dead letters to forward, last
--       number that the queue may have assigned}. The version is the queue's own, or that in ARGV if
--       the queue does not exist. Fails with NOQUEUE if a move of the queue must be ended or undone first.
assert(#ARGV == 3, 'queue_delete: 3 arguments')
local orphaned_version, tombstone_ttl_s, last_elsewhere = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('EXISTS', moving) == 1 then
  return redis.error_reply('NOQUEUE the queue moves')
end
load_queue()
local version, last_dead_letter, counters, epoch = unpack(redis.call('HMGET', queue, 's', 'o', 'k', 'e'))
local delivery_fence, subscriptions_version = read_lease(queue, DELIVERY_LEASE), redis.call('HGET', deliveries, 'v')
local outbox_length = redis.call('LLEN', outbox)
local last
if not version then
  version = orphaned_version
elseif orphaned_version ~= '' then
  return {'', 0, '0'}
else
  local last_fence = counters and struct.unpack(CLAIM_COUNTERS, counters) or 0
  last = math.max(tonumber(revision), tonumber(last_dead_letter) or 0, last_fence, last_visible,
    delivery_fence or 0, tonumber(subscriptions_version) or 0, tonumber(epoch) or 0, now - 1)
  redis.call('UNLINK', queue, messages, ready, in_flight, delayed, expirations, leases, claims, claim_ids, shards,
    tenants, idempotency, idempotency_expirations, tasks, task_leases, subscriptions, subscribers, subscription_ids,
    subscription_ends, deliveries, retries, retry_times)
  redis.call('EXPIRE', received, tombstone_ttl_s)
  -- Readers that follow the queue find that it is gone.
  notify(1)
end
local deleted, last_before = unpack(redis.call('HMGET', tombstone, 'v', 'c'))
local last_number = decimal(math.max(last or 0, tonumber(last_before) or 0, last_elsewhere))
if version ~= '' and not (deleted and tonumber(deleted) >= tonumber(version)) then
  -- Frees memory before anything grows, so that this works when the store is full.
  redis.call('DEL', tombstone)
  redis.call('HSET', tombstone, 'v', version, 'c', last_number)
  redis.call('EXPIRE', tombstone, tombstone_ttl_s)
end
if outbox_length == 0 then
  redis.call('ZREM', due, hash_tag())
end
return {version, outbox_length, last_number}
