-- Counts a queue's messages by state, and returns its totals. A queue that does not exist has none.
--
-- Returns {'due'} if due changes must be applied first; otherwise {'summary', now, numbers of
--       available, delayed and in-flight messages, rank of the oldest available message or 0,
--       totals of posted, expired and dead-lettered messages}.
if load_queue() then
  return {'due'}
end
local oldest = redis.call('ZRANGE', ready, 0, 0)[1]
local expired_total, dead_lettered_total = unpack(redis.call('HMGET', queue, 'te', 'td'))
return {
  'summary', decimal(now), redis.call('ZCARD', ready), redis.call('ZCARD', delayed), redis.call('ZCARD', in_flight),
  oldest and decimal(rank_of(oldest)) or 0, posted_total or 0, expired_total or 0, dead_lettered_total or 0,
}
