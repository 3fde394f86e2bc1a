-- Changes a subscription, if it is still at the revision that the caller knows.
--
-- ARGV  1 id    2 last known revision    3 subscriber    4 new time to live (s), or empty
--       5 settings    6 token that identifies a retry of this call
-- Returns {'due'} if due changes must be applied first; {'done'}; {'stale'} if the revision is
--       another one or the subscription does not exist; or {'taken', id of the other subscription
--       that has the subscriber}.
assert(#ARGV == 6, 'subscription_update: 6 arguments')
local id, last_known_revision, subscriber, new_ttl_s, settings, token = unpack(ARGV)

local _, has_expired = load_subscriptions()
if not has_subscription(id) then
  return {'stale'}
end
local last_token, last_subscriber, last_revision, began, ttl_s =
  struct.unpack(SUBSCRIPTION, redis.call('HGET', call.subscriptions, id))
if last_token == token then
  return {'done'}
elseif last_revision ~= tonumber(last_known_revision) then
  return {'stale'}
elseif has_expired then
  return {'due'}
end
local other = redis.call('HGET', call.subscribers, subscriber)
if other and other ~= id then
  return {'taken', other}
end
if new_ttl_s ~= '' then
  began, ttl_s = call.now, tonumber(new_ttl_s)
end
-- Frees memory before anything grows, so that this works when the store is full.
redis.call('HDEL', call.subscriptions, id)
redis.call('HDEL', call.subscribers, last_subscriber)
store_subscription(id, token, subscriber, math.max(last_revision + 1, call.now), began, ttl_s, settings)
note_subscription_change(id)
return {'done'}
