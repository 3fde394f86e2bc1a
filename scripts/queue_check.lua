-- Verifies that messages of a queue are each in one set, at a rank of their own, have a record, will be visited when they end, and are
-- in flight under a live claim or lease or not at all. Changes nothing.
--
-- ARGV  1 'ready', 'delayed' or 'in_flight'    2 the rank from which on    3 the maximum number of messages
-- Returns {'absent'} without a queue; otherwise {'checked', number of records, number of entries in the three sets, the rank to go on
--       from or nothing, how many messages it has checked, and what is wrong: key, what, ...}.
assert(#ARGV == 3, 'queue_check: 3 arguments')
local sets = {ready = ready, delayed = delayed, in_flight = in_flight}
local set, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

load_queue()
if not revision then
  return {'absent'}
end
local placed, wrong = 0, {}
for _, one in pairs(sets) do
  placed = placed + redis.call('ZCARD', one)
end

-- The entries that a claim was given, as a set; empty if it is not live.
local given = {}
local function given_to(claim)
  if not given[claim] then
    given[claim] = {}
    local _, _, entries = read_claim(claim)
    for _, entry in ipairs(entries or {}) do
      given[claim][entry] = true
    end
  end
  return given[claim]
end

local divided = fairness()
local found = redis.call('ZRANGEBYSCORE', sets[set], from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
for i = 1, #found, 2 do
  local entry, rank = found[i], tonumber(found[i + 1])
  local key = key_of(entry)
  local function expect(is_so, what)
    if not is_so then
      wrong[#wrong + 1], wrong[#wrong + 2] = key, what
    end
  end
  local sets_with_it, messages_there = 0, 0
  for _, one in pairs(sets) do
    sets_with_it = sets_with_it + (find_entry(key, {one}) and 1 or 0)
    messages_there = messages_there + redis.call('ZCOUNT', one, rank, rank)
  end
  local record_bytes = redis.call('HSTRLEN', messages, key)
  local visited = redis.call('ZSCORE', expirations, decimal(block_of(rank_of(entry))))
  expect(rank_of(entry) == rank, 'stands at another rank than its own')
  expect(sets_with_it <= 1, 'is in two sets')
  expect(messages_there == 1, 'shares its rank with another')
  expect(record_bytes > 0, 'has no record')
  expect(record_bytes <= bytes_max(entry), 'is larger than its size class')
  expect((set == 'in_flight') == (#entry == IN_FLIGHT_BYTES), 'has the entry of another set')
  expect(set ~= 'ready' or rank <= last_visible, 'is available before its rank was assigned')
  expect(visited and tonumber(visited) <= end_of(entry), 'never ends')
  expect(not visited or next_due and next_due <= visited * 1000000, 'ends without being due')
  local score = redis.call('ZSCORE', shards, key)
  if divided then
    local is_sharded = rank > divided.boundary
    local digit = set == 'ready' and FREE or set == 'delayed' and DELAYED or IN_FLIGHT
    expect(is_sharded or not score, 'has a shard and is older than those')
    expect(score or not is_sharded or set == 'delayed', 'has no shard')
    expect(not score or string.sub(score, 1, 1) == digit, 'is in another set than its shard says')
  else
    expect(not score, 'is in a shard of a queue that has none')
  end
  if #entry == IN_FLIGHT_BYTES then
    local claim = claim_in(entry)
    local lease = claim == NO_CLAIM and RETURNED .. entry or claim
    expect(redis.call('ZSCORE', leases, lease), 'is held by a lease that does not exist')
    expect(claim == NO_CLAIM or given_to(claim)[entry], 'is under a claim that does not have it')
  end
end
local last = #found == 2 * limit and decimal(tonumber(found[#found]) + 1) or ''
return {'checked', redis.call('HLEN', messages), placed, last, #found / 2, unpack(wrong)}
