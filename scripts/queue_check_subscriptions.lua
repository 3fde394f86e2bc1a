-- Verifies that each subscription of a queue is counted, listed, found by its subscriber and expires
-- when it should, and that progress, attempts and retries belong to a subscription. Changes nothing.
--
-- ARGV  1 name of the key to check    2 where to continue, '0' at first    3 approximate number to
--       check
-- Returns {'checked', where to continue or empty, then for each finding a subscription id, or empty
--       for the whole queue, and a text}.
assert(#ARGV == 3, 'queue_check_subscriptions: 3 arguments')
local part, from, limit = ARGV[1], ARGV[2], ARGV[3]
local RETRY_DUE = '>I4I8'

local reply = {'checked', ''}
local function expect(condition, id, finding)
  if not condition then
    reply[#reply + 1], reply[#reply + 2] = id, finding
  end
end
local function exists(id)
  return redis.call('HEXISTS', call.subscriptions, id) == 1
end

local sets = {
  subscription_ids = call.subscription_ids, subscription_ends = call.subscription_ends,
  retry_times = call.retry_times,
}
local hashes = {
  subscriptions = call.subscriptions, subscribers = call.subscribers, deliveries = call.deliveries,
  retries = call.retries,
}
local checks = {}

function checks.subscriptions(id, record)
  local _, subscriber, _, began, ttl_s = unpack_subscription(record)
  if not subscriber then
    -- The driver reads all records, too, and reports this one.
    return
  end
  local end_s = redis.call('ZSCORE', call.subscription_ends, id)
  expect(redis.call('HGET', call.subscribers, subscriber) == id, id, 'is not found by its subscriber')
  expect(redis.call('ZSCORE', call.subscription_ids, id), id, 'is not listed')
  expect(end_s, id, 'never expires')
  expect(not end_s or tonumber(end_s) == math.floor(began / 1000000) + ttl_s, id,
    'expires at another time than it should')
  expect(redis.call('HEXISTS', call.deliveries, 'p' .. id) == 1, id, 'has no progress')
end

function checks.subscribers(subscriber, id)
  local record = redis.call('HGET', call.subscriptions, id)
  expect(record, id, 'does not exist and has a subscriber')
  if record then
    local _, own = unpack_subscription(record)
    expect(not own or own == subscriber, id, 'is found by a subscriber that it does not have')
  end
end

function checks.subscription_ids(id)
  expect(exists(id), id, 'does not exist and is listed')
end

function checks.subscription_ends(id)
  expect(exists(id), id, 'does not exist and expires')
end

function checks.deliveries(field)
  local kind, id = string.sub(field, 1, 1), string.sub(field, 2, ID_BYTES + 1)
  expect(kind ~= 'p' or exists(id), id, 'does not exist and has progress')
  expect(kind ~= 'a' or exists(id), id, 'does not exist and has attempts')
end

function checks.retries(name, record)
  local id = string.sub(name, 1, ID_BYTES)
  if #record < 12 then
    return
  end
  local _, due_us = struct.unpack(RETRY_DUE, record)
  local entry = id .. struct.pack('>I8', due_us) .. string.sub(name, ID_BYTES + 1)
  expect(exists(id), id, 'does not exist and has a retry')
  expect(redis.call('ZSCORE', call.retry_times, entry), id, 'has a retry that is never due')
end

function checks.retry_times(entry)
  expect(redis.call('HEXISTS', call.retries, retry_name(entry)) == 1, string.sub(entry, 1, ID_BYTES),
    'has no record of a retry that is due')
end

if part == 'subscriptions' and from == '0' then
  local count = tonumber(redis.call('HGET', call.queue, 'n')) or 0
  local stored = redis.call('HLEN', call.subscriptions)
  expect(count == stored, '', stored .. ' subscriptions are stored, ' .. count .. ' are counted')
end
local found = redis.call(sets[part] and 'ZSCAN' or 'HSCAN', sets[part] or hashes[part], from, 'COUNT', limit)
for i = 1, #found[2], 2 do
  checks[part](found[2][i], found[2][i + 1])
end
reply[2] = found[1] == '0' and '' or found[1]
return reply
