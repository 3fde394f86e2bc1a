-- Deletes a subscription with its progress, attempts and retries.
--
-- ARGV  1 id
-- Returns 'done', also if it does not exist.
assert(#ARGV == 1, 'subscription_delete: 1 argument')
local id = ARGV[1]

if redis.call('HEXISTS', call.subscriptions, id) == 1 then
  remove_subscription(id)
  note_subscription_change(id)
end
return 'done'
