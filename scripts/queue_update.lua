-- Replaces a queue's metadata, if it is as the caller has seen it.
--
-- ARGV  1 the revision seen    2 metadata    3 what scripts obey of it, or nothing
--       4 a token by which this update recognizes itself
-- Returns {'due'} when something is due; otherwise {'done'} or {'stale'}.
assert(#ARGV == 4, 'queue_update: 4 arguments')
local seen, metadata, rules, token = unpack(ARGV)

local is_due = load_queue()
if redis.call('HGET', queue, 'u') == token then
  return {'done'}
elseif revision ~= seen then
  return {'stale'}
end
-- Messages that are visible when a queue becomes fair have no shard.
if is_fair(rules) and not fairness() and is_due then
  return {'due'}
end
local next_revision = decimal(math.max(tonumber(revision) + 1, last_visible + 1, now))
redis.call('HSET', queue, 'm', metadata, 'v', next_revision, 'u', token)
keep_policy(rules)
return {'done'}
