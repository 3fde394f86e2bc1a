-- Verifies that claims of a queue expire when they should and are listed, that each key in a shard
-- belongs to a message, and that just the running tasks have a lease. Changes nothing.
--
-- ARGV  1 'leases', 'claims', 'claim_ids', 'shards' or 'tasks'    2 where to continue, '0' at first
--       3 approximate number to check
-- Returns {'checked', where to continue or empty, then for each finding a claim id, message key or
--       task id and a text}.
assert(#ARGV == 3, 'queue_check_claims: 3 arguments')
local part, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

load_queue()
local reply = {'checked', ''}
local function expect(condition, what, finding)
  if not condition then
    reply[#reply + 1], reply[#reply + 2] = what, finding
  end
end

if part == 'leases' then
  local first = tonumber(from)
  local found = redis.call('ZRANGE', call.leases, first, first + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local lease, end_us = found[i], tonumber(found[i + 1])
    if #lease == CLAIM_BYTES then
      local claim = read_claim_if_readable(lease)
      expect(redis.call('HEXISTS', call.claims, lease) == 1, lease, 'does not exist and ends')
      expect(not claim or claim.since + claim.ttl * 1000000 == end_us, lease, 'ends at another time than it should')
    end
    expect(call.next_due and call.next_due <= end_us, lease, 'ends without being due')
  end
  reply[2] = #found == 2 * limit and decimal(first + limit) or ''
  return reply
end
local found
if part == 'tasks' then
  found = redis.call('HSCAN', call.tasks, from, 'COUNT', limit)
elseif part == 'claims' then
  found = redis.call('HSCAN', call.claims, from, 'COUNT', limit)
else
  found = redis.call('ZSCAN', part == 'claim_ids' and call.claim_ids or call.shards, from, 'COUNT', limit)
end
for i = 1, #found[2], 2 do
  local name = found[2][i]
  if part == 'claims' and #name > CLAIM_BYTES then
    local id = string.sub(name, 1, CLAIM_BYTES)
    local claim = read_claim_if_readable(id)
    expect(redis.call('HEXISTS', call.claims, id) == 1, id, 'does not exist and has a number of messages')
    expect(not claim or tonumber(found[2][i + 1]) == #held_entries(id, claim), id, 'has another number of messages')
  elseif part == 'claims' then
    expect(redis.call('ZSCORE', call.leases, name), name, 'never ends')
    local claim = read_claim_if_readable(name)
    expect(not claim or claim.fence == NO_FENCE or redis.call('ZSCORE', call.claim_ids, name), name, 'is not listed')
    expect(not (claim and claim.keys) or redis.call('HEXISTS', call.claims, name .. HELD) == 1, name, 'has no number of messages')
  elseif part == 'claim_ids' then
    expect(redis.call('HEXISTS', call.claims, name) == 1, name, 'does not exist and is listed')
  elseif part == 'tasks' then
    local is_running = string.byte(found[2][i + 1]) == TASK_RUNNING
    expect(is_running == (redis.call('HEXISTS', call.task_leases, name) == 1), name,
      is_running and 'is running without a lease' or 'has ended and has a lease')
  else
    expect(redis.call('HEXISTS', call.messages, name) == 1, name, 'is in a shard and has no record')
  end
end
reply[2] = found[1] == '0' and '' or found[1]
return reply
