-- Purges a queue of all its messages, claimed ones included, and so of its claims. Redis frees the
-- memory in the background. Subscriptions are kept.
--
-- Returns 'done', also if the queue does not exist.
load_queue()
redis.call('UNLINK', messages, ready, in_flight, delayed, expirations, leases, claims, claim_ids, shards)
if revision then
  local epoch = math.max((tonumber(redis.call('HGET', queue, 'e')) or 0) + 1, now)
  redis.call('HDEL', queue, 'd', 'l', 'e', 'x', 'b')
  redis.call('HSET', queue, 'e', decimal(epoch))
end
return 'done'
