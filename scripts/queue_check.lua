-- Look whether some messages of a queue are each in one set, at a rank of their own, and counted once. Changes nothing.
--
-- KEYS  the queue's
-- ARGV  1 'ready', 'delayed' or 'held'    2 the rank from which on    3 how many messages at most
-- Returns {'absent'} without a queue; else {'looked', how many records there are, how many messages in the three sets, the rank to go
--       on from or nothing, how many messages it looked at, and what is wrong: key, what, ...}.
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

local found = redis.call('ZRANGEBYSCORE', sets[set], from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
for i = 1, #found, 2 do
  local key, rank = found[i], tonumber(found[i + 1])
  local sets_with_it, messages_there = 0, 0
  for _, one in pairs(sets) do
    sets_with_it = sets_with_it + (redis.call('ZSCORE', one, key) and 1 or 0)
    messages_there = messages_there + redis.call('ZCOUNT', one, rank, rank)
  end
  local hold = hold_of(key)
  expect(rank_of(key) == rank, key, 'stands at another rank than its own')
  expect(sets_with_it == 1, key, 'is in two sets')
  expect(messages_there == 1, key, 'shares its rank with another')
  expect(redis.call('HEXISTS', messages, key) == 1, key, 'has no record')
  expect((set == 'held') == (hold ~= nil and hold.claim ~= ''), key, 'is held by nothing, or held and free')
  expect(set ~= 'ready' or rank <= last_rank(), key, 'is free before its rank was given')
end
local last = #found == 2 * limit and decimal(tonumber(found[#found]) + 1) or ''
return {'looked', redis.call('HLEN', messages), placed, last, #found / 2, unpack(wrong)}
