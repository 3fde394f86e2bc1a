-- Returns the status of a queue.
--
-- Returns {'due'} if due changes must be applied first; otherwise {'status', now, last visible
--       rank, number of available messages, time (µs) when the next claim, return or delay ends or
--       0, stamp of the last purge of subscriptions or 0}.
local is_due, last_purge = load_queue('g')
if is_due then
  return {'due'}
end
local next_end_us = tonumber(redis.call('ZRANGE', call.leases, 0, 0, 'WITHSCORES')[2]) or math.huge
if call.logical_packed then
  local offset = struct.unpack(LOGICAL_TIME, call.logical_packed)
  local first = tonumber(redis.call('ZRANGE', call.delayed, 0, 0, 'WITHSCORES')[2]) or math.huge
  next_end_us = math.min(next_end_us, first - offset)
end
return {
  'status', decimal(call.now), decimal(call.last_visible), redis.call('ZCARD', call.ready),
  next_end_us < math.huge and decimal(next_end_us) or 0, last_purge or 0,
}
