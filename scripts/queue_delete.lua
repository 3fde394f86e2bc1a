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

if redis.call('EXISTS', call.moving) == 1 then
  return redis.error_reply('NOQUEUE the queue moves')
end
load_queue()
local version, last_dead_letter, counters, epoch = unpack(redis.call('HMGET', call.queue, 's', 'o', 'k', 'e'))
local delivery_fence = read_lease(call.queue, DELIVERY_LEASE)
local subscriptions_version = redis.call('HGET', call.deliveries, 'v')
local outbox_length = redis.call('LLEN', call.outbox)
local last
if not version then
  version = orphaned_version
elseif orphaned_version ~= '' then
  return {'', 0, '0'}
else
  local last_fence = counters and struct.unpack(CLAIM_COUNTERS, counters) or 0
  last = math.max(tonumber(call.revision), tonumber(last_dead_letter) or 0, last_fence, call.last_visible,
    delivery_fence or 0, tonumber(subscriptions_version) or 0, tonumber(epoch) or 0, call.now - 1)
  redis.call('UNLINK', call.queue, call.messages, call.ready, call.in_flight, call.delayed, call.expirations,
    call.leases, call.claims, call.claim_ids, call.shards, call.tenants, call.idempotency,
    call.idempotency_expirations, call.tasks, call.task_leases, call.subscriptions, call.subscribers,
    call.subscription_ids, call.subscription_ends, call.deliveries, call.retries, call.retry_times)
  redis.call('EXPIRE', call.received, tombstone_ttl_s)
  -- Readers that follow the queue find that it is gone.
  notify(1)
end
local deleted, last_before = unpack(redis.call('HMGET', call.tombstone, 'v', 'c'))
local last_number = decimal(math.max(last or 0, tonumber(last_before) or 0, last_elsewhere))
if version ~= '' and not (deleted and tonumber(deleted) >= tonumber(version)) then
  -- Frees memory before anything grows, so that this works when the store is full.
  redis.call('DEL', call.tombstone)
  redis.call('HSET', call.tombstone, 'v', version, 'c', last_number)
  redis.call('EXPIRE', call.tombstone, tombstone_ttl_s)
end
if outbox_length == 0 then
  redis.call('ZREM', call.due, hash_tag())
end
return {version, outbox_length, last_number}
