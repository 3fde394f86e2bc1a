-- Purges a queue of all its messages, claimed ones included, and so of its claims. Redis frees the
-- memory in the background. Subscriptions are kept.
--
-- Returns 'done', also if the queue does not exist.
load_queue()
redis.call('UNLINK', call.messages, call.ready, call.in_flight, call.delayed, call.expirations,
  call.leases, call.claims, call.claim_ids, call.shards)
if call.revision then
  local epoch = math.max((tonumber(redis.call('HGET', call.queue, 'e')) or 0) + 1, call.now)
  redis.call('HDEL', call.queue, 'd', 'l', 'e', 'x', 'b')
  redis.call('HSET', call.queue, 'e', decimal(epoch))
end
return 'done'
