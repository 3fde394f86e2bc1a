-- Purges a queue of its messages, claimed ones too, and so of its claims. As with a deletion, Redis frees the memory in the
-- background.
--
-- Returns 'done', also when there is no such queue.
load_queue()
redis.call('UNLINK', messages, ready, in_flight, delayed, expirations, leases, claims, shards)
if revision then
  local epoch = math.max((tonumber(redis.call('HGET', queue, 'e')) or 0) + 1, now)
  redis.call('HDEL', queue, 'd', 'l', 'e', 'x')
  redis.call('HSET', queue, 'e', decimal(epoch))
end
return 'done'
