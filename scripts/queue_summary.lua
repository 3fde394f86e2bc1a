-- Counts a queue's messages by state, and returns its totals. A queue that does not exist has none.
--
-- Returns {'due'} if due changes must be applied first; otherwise {'summary', now, numbers of
--       available, delayed and in-flight messages, rank of the oldest available message or 0,
--       whether the queue is paused (1 or 0), totals of posted, claimed, expired and dead-lettered
--       messages}.
if load_queue() then
  return {'due'}
end
local paused, expired, dead_lettered, counters = unpack(redis.call('HMGET', call.queue, 'z', 'te', 'td', 'k'))
local claimed = 0
if counters then
  local _, claimed_total = struct.unpack(CLAIM_COUNTERS, counters)
  claimed = decimal(claimed_total)
end
local oldest = redis.call('ZRANGE', call.ready, 0, 0)[1]
return {
  'summary', decimal(call.now), redis.call('ZCARD', call.ready), redis.call('ZCARD', call.delayed),
  redis.call('ZCARD', call.in_flight),
  oldest and decimal(rank_of(oldest)) or 0, paused and 1 or 0, decimal(call.posted_total), claimed, expired or 0,
  dead_lettered or 0,
}
