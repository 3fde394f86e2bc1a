-- Stores changes of deliveries, and renews the delivery lease. Changes of subscriptions that do not
-- exist have no effect.
--
-- ARGV  1 fence
--       then for each subscription that has changed its head (see below); its progress;
--       for each attempt its place (1 byte) and its record;
--       for each retry that has ended its entry in `retry_times`;
--       for each new retry its entry and its record
-- Returns {'due'} if due changes must be applied first; {'fenced'} if the lease has another fence;
--       otherwise {'saved', the state of the feed as in delivery_lease}.
assert(#ARGV >= 1, 'delivery_save: 1 argument and those of the changes')
local fence = tonumber(ARGV[1])
-- Id of the subscription; numbers of attempts, of retries that have ended, and of new ones.
local HEAD = '>c16I4I4I4'
local RETRY_DUE = '>I4I8'

-- Stores attempts, each in the place of an older one.
local function save_attempts(id, first, last)
  local fields, values = {}, {}
  for at = first, last, 2 do
    local field = 'a' .. id .. ARGV[at]
    fields[#fields + 1] = field
    values[#values + 1], values[#values + 2] = field, ARGV[at + 1]
  end
  call_in_chunks('HDEL', call.deliveries, fields)
  call_in_chunks('HSET', call.deliveries, values)
end

-- Removes a retry, unless it has become due at another time.
local function end_retry(entry)
  if redis.call('ZREM', call.retry_times, entry) == 1 then
    redis.call('HDEL', call.retries, retry_name(entry))
  end
end

local function save_retry(entry, record)
  local name = retry_name(entry)
  -- There is a former record only if this call is repeated, or the caller does not know of it.
  local former = redis.call('HGET', call.retries, name)
  if former then
    local _, due_us = struct.unpack(RETRY_DUE, former)
    local former_entry = string.sub(name, 1, ID_BYTES) .. struct.pack('>I8', due_us) .. string.sub(name, ID_BYTES + 1)
    redis.call('ZREM', call.retry_times, former_entry)
    redis.call('HDEL', call.retries, name)
  end
  redis.call('ZADD', call.retry_times, 0, entry)
  redis.call('HSET', call.retries, name, record)
end

if load_queue() then
  return {'due'}
elseif not renew_lease(call.queue, DELIVERY_LEASE, fence, DELIVERY_LEASE_US) then
  return {'fenced'}
end
local at = 2
while at <= #ARGV do
  local id, attempt_count, ended_count, new_count = struct.unpack(HEAD, ARGV[at])
  local attempts_at = at + 2
  local ended_at = attempts_at + 2 * attempt_count
  local new_at = ended_at + ended_count
  local next_at = new_at + 2 * new_count
  if has_subscription(id) then
    redis.call('HDEL', call.deliveries, 'p' .. id)
    redis.call('HSET', call.deliveries, 'p' .. id, ARGV[at + 1])
    save_attempts(id, attempts_at, ended_at - 1)
    for i = ended_at, new_at - 1 do
      end_retry(ARGV[i])
    end
    for i = new_at, next_at - 1, 2 do
      save_retry(ARGV[i], ARGV[i + 1])
    end
  end
  at = next_at
end
return {'saved', feed_state()}
