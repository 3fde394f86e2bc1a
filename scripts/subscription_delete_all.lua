-- Deletes all subscriptions of a queue, and ends its delivery lease. Redis frees the memory in the
-- background. Also notifies the watchers of the queue, because no store knows the subscriptions of
-- connections.
--
-- Returns 'done'.
local has_stored = redis.call('HDEL', call.queue, 'n') == 1
if redis.call('HEXISTS', call.queue, 'v') == 1 then
  local last_purge = tonumber(redis.call('HGET', call.queue, 'g') or '0')
  redis.call('HSET', call.queue, 'g', decimal(math.max(last_purge + 1, call.now)))
  notify(0)
end
if has_stored then
  local version = redis.call('HGET', call.deliveries, 'v')
  redis.call('UNLINK', call.subscriptions, call.subscribers, call.subscription_ids, call.subscription_ends,
    call.deliveries, call.retries, call.retry_times)
  -- Without an entry in the last changes, a deliverer loads all subscriptions: there are none.
  redis.call('HSET', call.deliveries, 'v', decimal(math.max(tonumber(version) + 1, call.now)))
  local fence = read_lease(call.queue, DELIVERY_LEASE)
  if fence then
    store_lease(call.queue, DELIVERY_LEASE, fence + 1, 0, NO_CLAIM)
  end
  signal_deliveries()
end
return 'done'
