-- Creates a subscription, or changes one that is still at the revision that the caller knows.
--
-- ARGV  1 id    2 token that identifies a retry of this call: the id for a creation
--       3 last known revision, or empty to create it    4 subscriber
--       5 new time to live (s), or empty to leave it    6 settings
--       7 for a creation, rank after which its first message is, or empty for the end of the feed
--       8 for a creation, maximum number of subscriptions
-- Returns {'due'} if due changes must be applied first; {'done'}, also if a subscription to create
--       exists; {'stale'} if the revision is another one, or the subscription or the queue does not
--       exist; {'taken', id of the other subscription that has the subscriber}; or {'too_many'}.
assert(#ARGV == 8, 'subscription_write: 8 arguments')
local id, token, last_known_revision, subscriber, new_ttl_s, settings, after, count_max = unpack(ARGV)
local is_new = last_known_revision == ''

local is_due = load_subscriptions()
local exists = has_subscription(id)
local last_token, last_subscriber, last_revision, began, ttl_s
if not is_new and exists then
  last_token, last_subscriber, last_revision, began, ttl_s =
    struct.unpack(SUBSCRIPTION, redis.call('HGET', call.subscriptions, id))
end
if is_new and exists or last_token == token then
  return {'done'}
elseif not call.revision or last_revision ~= tonumber(last_known_revision) then
  return {'stale'}
elseif is_due then
  return {'due'}
end
local other = redis.call('HGET', call.subscribers, subscriber)
if other and other ~= id then
  return {'taken', other}
elseif is_new and (call.subscription_count or 0) >= tonumber(count_max) then
  return {'too_many'}
end
if is_new then
  -- The first numbers of the record of its progress: position, highest position, messages read, feed
  -- total.
  local position = after == '' and call.last_visible or math.min(tonumber(after), call.last_visible)
  local progress = struct.pack('>I8I8I8I8', position, call.last_visible, 0, feed_total())
  redis.call('HSET', call.deliveries, 'p' .. id, progress .. string.rep('\0', PROGRESS_HEAD_BYTES - #progress))
  redis.call('HINCRBY', call.queue, 'n', 1)
else
  -- Frees memory before anything grows, so that this works when the store is full.
  redis.call('HDEL', call.subscriptions, id)
  redis.call('HDEL', call.subscribers, last_subscriber)
end
if new_ttl_s ~= '' then
  began, ttl_s = call.now, tonumber(new_ttl_s)
end
local revision = math.max((last_revision or 0) + 1, call.now)
local record = struct.pack(SUBSCRIPTION, token, #subscriber, subscriber, revision, began, ttl_s) .. settings
redis.call('HSET', call.subscriptions, id, record)
redis.call('HSET', call.subscribers, subscriber, id)
redis.call('ZADD', call.subscription_ids, 0, id)
redis.call('ZADD', call.subscription_ends, decimal(math.floor(began / 1000000) + ttl_s), id)
note_subscription_change(id)
return {'done'}
