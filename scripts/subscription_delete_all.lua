-- Deletes all subscriptions of a queue, and ends its delivery lease. Redis frees the memory in the
-- background.
--
-- Returns 'done'.
if redis.call('HDEL', queue, 'n') == 1 then
  local version = redis.call('HGET', deliveries, 'v')
  redis.call('UNLINK', subscriptions, subscribers, subscription_ids, subscription_ends, deliveries, retries,
    retry_times)
  redis.call('HSET', deliveries, 'v', version)
  local fence = read_lease(queue, DELIVERY_LEASE)
  if fence then
    store_lease(queue, DELIVERY_LEASE, fence + 1, 0, NO_CLAIM)
  end
  note_subscription_change()
end
return 'done'
