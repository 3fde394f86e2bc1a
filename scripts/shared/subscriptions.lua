-- Subscriptions of a queue. `subscriptions` has a record of each:
--   token of the last update (16 bytes), length (4 bytes) and text of the subscriber;
--   then the record that storage/delivery_record.rs describes: revision, start of the ttl (µs),
--   ttl (s), and the settings, which scripts do not read.
-- `subscribers` has the id by the subscriber, `subscription_ids` the ids in byte order, for lists,
-- and `subscription_ends` the ids by the second in which the subscription expires. An expired
-- subscription does not exist for any script; queue_apply_due removes it.
--
-- `deliveries` has these fields: 'p' and an id: progress of the subscription; 'a', an id and a
-- place: one of its last attempts; v: the version of the subscriptions, which changes with each of
-- them; l: their last changes (storage/subscription_changes.rs); s: what the last holder of the lease
-- has seen, and o: until when attempts of a lost one may run (deliveries.lua).
-- `retries` has a record by the id of the subscription and the key of the message. `retry_times`
-- has an entry of each: the id, the time (µs) when the retry is due, in 8 bytes, and the key.
local SUBSCRIPTION = '>c16I4c0I8I8I8'
local CHANGE = '>I8I8c16'
local CHANGE_BYTES = 32

-- Returns whether a subscription exists.
local function has_subscription(id)
  local end_s = redis.call('ZSCORE', call.subscription_ends, id)
  return end_s and tonumber(end_s) > math.floor(call.now / 1000000)
end

-- Loads the queue and the number of its subscriptions. Returns whether due changes must be applied
-- first. A subscription that has expired is one.
local function load_subscriptions()
  local is_due
  is_due, call.subscription_count = load_queue('n')
  if not call.subscription_count then
    return is_due
  end
  call.subscription_count = tonumber(call.subscription_count)
  local first = redis.call('ZRANGE', call.subscription_ends, 0, 0, 'WITHSCORES')
  return is_due or first[2] and tonumber(first[2]) <= math.floor(call.now / 1000000)
end

-- Returns the token, the subscriber, the revision, the start of the ttl and the ttl of a record;
-- nothing if the record cannot be read.
local function unpack_subscription(record)
  local is_readable, token, subscriber, last_revision, began, ttl_s = pcall(struct.unpack, SUBSCRIPTION, record)
  if is_readable then
    return token, subscriber, last_revision, began, ttl_s
  end
end

-- Records that a subscription was created, changed or removed. The version goes on after that of an
-- earlier queue of this name (queue_delete.lua).
local function record_subscription_change(id)
  local last_version, changes = unpack(redis.call('HMGET', call.deliveries, 'v', 'l'))
  local before = tonumber(last_version) or call.last_visible
  local version = math.max(before + 1, call.now)
  local kept = string.sub(changes or '', -(CHANGES_MAX - 1) * CHANGE_BYTES)
  redis.call('HSET', call.deliveries, 'v', decimal(version), 'l', kept .. struct.pack(CHANGE, before, version, id))
end

-- Does the same, and announces it.
local function note_subscription_change(id)
  record_subscription_change(id)
  signal_deliveries()
end

-- Returns the bounds of the entries of a subscription in `retry_times`. No time begins with the
-- byte 255.
local function retry_range(id)
  return '[' .. id, '(' .. id .. '\255'
end

-- Returns the name of the retry with this entry.
local function retry_name(entry)
  return string.sub(entry, 1, ID_BYTES) .. string.sub(entry, ID_BYTES + 9)
end

-- Removes the subscriber of a subscription whose record cannot be read. Visits all subscribers of the
-- queue, whose number has a limit.
local function remove_subscriber_of(id)
  local found = redis.call('HGETALL', call.subscribers)
  for i = 1, #found, 2 do
    if found[i + 1] == id then
      redis.call('HDEL', call.subscribers, found[i])
    end
  end
end

-- Removes a subscription with its progress, attempts and retries, of which it has about a thousand
-- at most. Only frees memory. Returns the number of retries.
local function remove_subscription(id)
  local record = redis.call('HGET', call.subscriptions, id)
  if record then
    local _, subscriber = unpack_subscription(record)
    redis.call('HDEL', call.subscriptions, id)
    if subscriber then
      redis.call('HDEL', call.subscribers, subscriber)
    else
      remove_subscriber_of(id)
    end
  end
  redis.call('ZREM', call.subscription_ids, id)
  redis.call('ZREM', call.subscription_ends, id)
  local fields = {'p' .. id}
  for place = 0, ATTEMPTS_KEPT - 1 do
    fields[#fields + 1] = 'a' .. id .. string.char(place)
  end
  redis.call('HDEL', call.deliveries, unpack(fields))
  local first, last = retry_range(id)
  local names = {}
  for i, entry in ipairs(redis.call('ZRANGEBYLEX', call.retry_times, first, last)) do
    names[i] = retry_name(entry)
  end
  call_in_chunks('HDEL', call.retries, names)
  redis.call('ZREMRANGEBYLEX', call.retry_times, first, last)
  if record then
    call.subscription_count = redis.call('HINCRBY', call.queue, 'n', -1)
    if call.subscription_count <= 0 then
      call.subscription_count = nil
      redis.call('HDEL', call.queue, 'n')
    end
  end
  return #names
end
