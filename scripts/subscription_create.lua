-- Creates a subscription, unless the queue has one with the same subscriber or too many.
--
-- ARGV  1 id, which identifies a retry of this call    2 subscriber    3 time to live (s)
--       4 settings    5 rank after which its first message is, or empty for the end of the feed
--       6 maximum number of subscriptions
-- Returns {'due'} if due changes must be applied first; {'absent'} if the queue does not exist;
--       {'exists', now, id, record} if that subscription has the subscriber; {'too_many'}; or
--       {'created'}.
assert(#ARGV == 6, 'subscription_create: 6 arguments')
local id, subscriber, ttl_s, settings, after, count_max = unpack(ARGV)

local is_due = load_subscriptions()
if not call.revision then
  return {'absent'}
elseif has_subscription(id) then
  return {'created'}
elseif is_due then
  return {'due'}
end
local other = redis.call('HGET', call.subscribers, subscriber)
if other then
  return {'exists', decimal(call.now), other, redis.call('HGET', call.subscriptions, other)}
elseif (call.subscription_count or 0) >= tonumber(count_max) then
  return {'too_many'}
end
store_subscription(id, id, subscriber, call.now, call.now, tonumber(ttl_s), settings)
-- The first numbers of the record of its progress: position, highest position, messages read, feed
-- total.
local position = after == '' and call.last_visible or math.min(tonumber(after), call.last_visible)
local progress = struct.pack('>I8I8I8I8', position, call.last_visible, 0, feed_total())
redis.call('HSET', call.deliveries, 'p' .. id, progress .. string.rep('\0', PROGRESS_HEAD_BYTES - #progress))
redis.call('HINCRBY', call.queue, 'n', 1)
note_subscription_change(id)
return {'created'}
