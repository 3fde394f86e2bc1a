-- Look whether some messages of a queue are each in one set, at a rank of their own, counted once, and held by a live lease or by none.
-- Changes nothing.
--
-- KEYS  the queue's
-- ARGV  1 'ready', 'delayed' or 'held'    2 the rank from which on    3 how many messages at most
-- Returns {'absent'} without a queue; else {'looked', how many records there are, how many messages in the three sets, the rank to go
--       on from or nothing, how many messages it looked at, for each of them its key and the second in which it ends (0: it has no
--       record), and what is wrong: key, what, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 3, 'queue_check: the keys of the queue, 3 arguments')
local sets = {ready = ready, delayed = delayed, held = held}
local set, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('EXISTS', queue) == 0 then
  return {'absent'}
end
local placed, wrong = 0, {}
for _, one in pairs(sets) do
  placed = placed + redis.call('ZCARD', one)
end
local function expect(is_so, key, what)
  if not is_so then
    wrong[#wrong + 1], wrong[#wrong + 2] = key, what
  end
end

-- The messages that a claim was given, as a set; empty if it is not live.
local given = {}
local function given_to(claim)
  if not given[claim] then
    given[claim] = {}
    local _, _, keys = claim_of(claim)
    for _, key in ipairs(keys or {}) do
      given[claim][key] = true
    end
  end
  return given[claim]
end

local divided = fairness()
local found = redis.call('ZRANGEBYSCORE', sets[set], from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
local answer = {}
for i = 1, #found, 2 do
  local key, rank = found[i], tonumber(found[i + 1])
  local sets_with_it, messages_there = 0, 0
  for _, one in pairs(sets) do
    sets_with_it = sets_with_it + (redis.call('ZSCORE', one, key) and 1 or 0)
    messages_there = messages_there + redis.call('ZCOUNT', one, rank, rank)
  end
  local record, packed = redis.call('HGET', messages, key), redis.call('HGET', holds, key)
  local hold = record and hold_at({keys = {key}, records = {record}, holds = {packed}}, 1) or {claim = '', second = 0}
  expect(rank_of(key) == rank, key, 'stands at another rank than its own')
  expect(sets_with_it == 1, key, 'is in two sets')
  expect(messages_there == 1, key, 'shares its rank with another')
  expect(record, key, 'has no record')
  expect((set == 'held') == (hold.claim ~= ''), key, 'is held by nothing, or held and free')
  expect(set ~= 'ready' or rank <= last_rank(), key, 'is free before its rank was given')
  local score = redis.call('ZSCORE', shards, key)
  if divided then
    local is_sharded = rank > divided.boundary
    expect(is_sharded or not score, key, 'has a shard and is older than those')
    expect(score or not is_sharded or set == 'delayed', key, 'has no shard')
    expect(not score or string.sub(score, 1, 1) == digit_of(sets[set]), key, 'is in another set than its shard says')
  else
    expect(not score, key, 'is in a shard of a queue that has none')
  end
  if hold.claim ~= '' then
    expect(redis.call('ZSCORE', leases, hold.claim), key, 'is held by a lease that is not there')
    expect(#hold.claim ~= CLAIM_ID_BYTES or given_to(hold.claim)[key], key, 'is under a claim that does not have it')
  end
  answer[#answer + 1], answer[#answer + 2] = key, hold.second
end
local last = #found == 2 * limit and decimal(tonumber(found[#found]) + 1) or ''
local looked = {'looked', redis.call('HLEN', messages), placed, last, #found / 2}
for _, items in ipairs({answer, wrong}) do
  for _, item in ipairs(items) do
    looked[#looked + 1] = item
  end
end
return looked
