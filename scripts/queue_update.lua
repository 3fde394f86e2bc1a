-- Replaces a queue's metadata, if the queue is still at the revision that the caller knows.
--
-- ARGV  1 last known revision    2 metadata    3 packed policy (shared/policy.lua), or empty
--       4 token that identifies a retry of this call
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, or {'stale'} if the
--       revision is another one or the queue does not exist.
assert(#ARGV == 4, 'queue_update: 4 arguments')
local last_known_revision, metadata, policy, token = unpack(ARGV)

local is_due = load_queue()
if redis.call('HGET', call.queue, 'u') == token then
  return {'done'}
elseif call.revision ~= last_known_revision then
  return {'stale'}
end
-- Due changes decide which messages have a shard when the queue becomes fair, and whether it still
-- has such messages when it becomes plain.
local fair = fairness()
local becomes_fair = is_fair(policy) and not fair
local becomes_plain = not is_fair(policy) and fair and fair.count > 1
if is_due and (becomes_fair or becomes_plain) then
  return {'due'}
end
local next_revision = decimal(math.max(tonumber(call.revision) + 1, call.last_visible + 1, call.now))
redis.call('HSET', call.queue, 'm', metadata, 'v', next_revision, 'u', token)
store_policy(policy)
return {'done'}
