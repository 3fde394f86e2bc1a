-- Verifies some messages of a queue. Each must be in one set, at a rank of its own, and have a
-- record. It must be visited when it expires, and be in flight only under a live claim or lease.
-- Changes nothing.
--
-- ARGV  1 'ready', 'delayed' or 'in_flight'    2 rank to start from    3 maximum number of messages
-- Returns {'absent'} if the queue does not exist; otherwise {'checked', number of records, number
--       of entries in the three sets, rank to continue from or empty, number of messages checked,
--       then for each finding the message key and a text}.
assert(#ARGV == 3, 'queue_check: 3 arguments')
local sets = {ready = call.ready, delayed = call.delayed, in_flight = call.in_flight}
local set, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

load_queue()
if not call.revision then
  return {'absent'}
end
local entry_count, findings = 0, {}
for _, any_set in pairs(sets) do
  entry_count = entry_count + redis.call('ZCARD', any_set)
end

-- The keys that each claim was given, as a set by claim id. The set is empty if the claim is not
-- live.
local keys_by_claim = {}
local function keys_given_to(id)
  if not keys_by_claim[id] then
    keys_by_claim[id] = {}
    local claim = read_claim_if_readable(id)
    for _, key in ipairs(claim and (claim.keys or keys_of(claim.entries)) or {}) do
      keys_by_claim[id][key] = true
    end
  end
  return keys_by_claim[id]
end

local fair = fairness()
local found = redis.call('ZRANGEBYSCORE', sets[set], from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
for i = 1, #found, 2 do
  local entry, rank = found[i], tonumber(found[i + 1])
  local key = key_of(entry)
  local function expect(condition, finding)
    if not condition then
      findings[#findings + 1], findings[#findings + 2] = key, finding
    end
  end
  local sets_with_it, messages_there = 0, 0
  for _, any_set in pairs(sets) do
    sets_with_it = sets_with_it + (find_entry(key, {any_set}) and 1 or 0)
    messages_there = messages_there + redis.call('ZCOUNT', any_set, rank, rank)
  end
  local record_bytes = redis.call('HSTRLEN', call.messages, key)
  local visited = redis.call('ZSCORE', call.expirations, decimal(block_of(rank_of(entry))))
  expect(rank_of(entry) == rank, 'is at another rank than its own')
  expect(sets_with_it <= 1, 'is in two sets')
  expect(messages_there == 1, 'shares its rank with another')
  expect(record_bytes > 0, 'has no record')
  expect(record_bytes <= bytes_max(entry), 'is larger than its size class')
  expect((set == 'in_flight') == (#entry >= IN_FLIGHT_BYTES), 'has the entry of another set')
  expect(set ~= 'ready' or rank <= call.last_visible, 'is available before its rank was assigned')
  expect(visited and tonumber(visited) <= current_end_s(entry), 'never ends')
  expect(not visited or call.next_due and call.next_due <= visited * 1000000, 'ends without being due')
  local score = redis.call('ZSCORE', call.shards, key)
  if fair then
    local is_sharded = rank > fair.boundary
    local digit = set == 'ready' and AVAILABLE or set == 'delayed' and DELAYED or IN_FLIGHT
    expect(is_sharded or not score, 'has a shard and is older than the sharding')
    expect(score or not is_sharded or set == 'delayed', 'has no shard')
    expect(not score or string.sub(score, 1, 1) == digit, 'is in another set than its shard says')
  else
    expect(not score, 'is in a shard of a queue that has none')
  end
  if #entry >= IN_FLIGHT_BYTES then
    local claim = claim_in(entry)
    local lease = claim == NO_CLAIM and own_lease_of(entry) or claim
    expect(redis.call('ZSCORE', call.leases, lease), 'is held by a lease that does not exist')
    expect(claim == NO_CLAIM or keys_given_to(claim)[key], 'is under a claim that does not have it')
  end
end
local last = #found == 2 * limit and decimal(tonumber(found[#found]) + 1) or ''
return {'checked', redis.call('HLEN', call.messages), entry_count, last, #found / 2, unpack(findings)}
