-- Purge a queue of its messages, claimed ones too, and so of its claims. As with a deletion the memory is
-- given back in the background.
--
-- KEYS  the queue's
-- Returns 'done', also when there is no such queue.
assert(#KEYS == QUEUE_KEYS and #ARGV == 0, 'queue_purge: the keys of the queue, no argument')

redis.call('UNLINK', messages, ready, delayed, held, ends, holds, leases, claims, shards)
redis.call('HDEL', queue, 'n', 'w', 't')
return 'done'
