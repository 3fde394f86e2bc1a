-- Deletes all subscriptions of a queue, and ends its delivery lease. Redis frees the memory in the
-- background. Also notifies the watchers of the queue, because no store knows the subscriptions of
-- connections.
--
-- Returns 'done'.
local has_stored = redis.call('HDEL', queue, 'n') == 1
if redis.call('HEXISTS', queue, 'v') == 1 then
  local last_purge = tonumber(redis.call('HGET', queue, 'g') or '0')
  redis.call('HSET', queue, 'g', decimal(math.max(last_purge + 1, now)))
  notify(0)
end
if has_stored then
  local version = redis.call('HGET', deliveries, 'v')
  redis.call('UNLINK', subscriptions, subscribers, subscription_ids, subscription_ends, deliveries, retries,
    retry_times)
  -- Without an entry in the last changes, a deliverer loads all subscriptions: there are none.
  redis.call('HSET', deliveries, 'v', decimal(math.max(tonumber(version) + 1, now)))
  local fence = read_lease(queue, DELIVERY_LEASE)
  if fence then
    store_lease(queue, DELIVERY_LEASE, fence + 1, 0, NO_CLAIM)
  end
  signal_deliveries()
end
return 'done'
