-- Posts the messages of one or more requests.
--
-- Requests that are accepted or refused together form one part of the post. Of each part either all
-- messages are posted, in order and after every other message, or none. Each part has its own
-- outcome, and an error in one queue does not affect the others.
--
-- A post only adds messages, so due changes need not be applied first. There are two exceptions. In
-- a fair queue it matters which messages a shard has, and delayed messages may occupy the ranks
-- that new messages would get.
--
-- KEYS  for each queue the keys that a post needs; the last reply of this retry slot (string); the
--       index of due queues
-- ARGV  1 number of queues    2 number of keys per queue    3 sequence number of the retry slot
--       4 how long the slot's reply is kept (ms)
--       then for each part its head (see below); in a fair queue its tenants, each as the number
--       of its shards (2 bytes), the shards, and its name; and the record of each message
-- Returns one outcome for each part. Its first byte is one of these:
--   RANKS_POSTED, then the key of the first message; the others have the ranks that follow;
--   KEYS_POSTED, then the keys of all messages;
--   KEYS_REPEATED, then the keys of all messages, which an earlier request with the same
--   idempotency key has posted;
--   STALE, then the queue's revision (8 bytes) and metadata, or nothing if the queue does not
--   exist: the revision is not the one that the requests were made for;
--   TOO_MANY: the queue would have more messages than the part allows;
--   TOO_LARGE: the messages of the queue would have more bytes than the part allows;
--   OTHER_CONTENT: the idempotency key was used with other content before;
--   DUE_FIRST: due changes of the queue must be applied first;
--   FAILED, then the error from Redis.
-- If the sequence number is not the newest of its retry slot, the script returns just {LATE}.
local queues, keys_per_queue, sequence, lifetime_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local keys_of_queues = queues * keys_per_queue
assert(#KEYS >= keys_of_queues + 2 and #ARGV >= 6,
  'message_post: the keys of each queue and two, 4 arguments and those of a part')
local LAST_REPLY = KEYS[keys_of_queues + 1]
local DUE = KEYS[keys_of_queues + 2]
local FIRST_PART = 5
-- Head of a part: index of the queue, number of messages, revision that the requests were made for,
-- lifetime of the outcome under an idempotency key (s; 0: no key), number of tenants (0: the queue
-- is not fair by its metadata), flags: 1 if any message has a delay, 2 if there are limits; sum of
-- the sizes of the messages. Then the limits: the maximum number of messages in the queue, and the
-- maximum sum of their sizes.
-- Then for each message: nonce, poster, size class and ttl (s); if any message has a delay, its
-- delay (s); if there are tenants, the number of its tenant.
-- At the end, if there is an idempotency key: its name, and a digest of the messages. The first byte
-- of the digest is its version.
local HEAD = '>I2I4I8I4I2BI8'
local LIMITS = '>I8I8'
local HAS_DELAYS = 1
local HAS_LIMITS = 2
local NAME_BYTES = 16
local DIGEST_BYTES = 17
local SEQUENCE = '>I8'
local SEQUENCE_BYTES = 8
local RANKS_POSTED = 'r'
local KEYS_POSTED = 'p'
local KEYS_REPEATED = 'k'
local STALE = 's'
local OTHER_CONTENT = 'o'
local TOO_MANY = 'q'
local TOO_LARGE = 'b'
local DUE_FIRST = 'u'
local FAILED = 'f'
local LATE = 'l'
local outcomes = {}
-- Whether a repeated call must return this reply instead of posting again.
local must_store_reply = false

-- Returns the stored outcome of a request with an idempotency key, if there is one.
local function repeated_outcome(part)
  local kept = part.name and stored_outcome(part.name)
  if not kept then
    return nil
  end
  -- The keys follow the digest, which is longer than one key and shorter than two. Earlier releases have stored
  -- digests of another length, with which those of this version cannot be compared.
  local digest = string.sub(kept, 1, KEY_BYTES + #kept % KEY_BYTES)
  local is_comparable = #digest == DIGEST_BYTES and string.byte(digest) == string.byte(part.digest)
  if is_comparable and digest ~= part.digest then
    return OTHER_CONTENT
  end
  return KEYS_REPEATED .. string.sub(kept, #digest + 1)
end

-- Returns the outcome of a part whose queue has changed since the request was made, or nil.
local function stale_outcome(part)
  local current = tonumber(call.revision)
  if part.last_known_revision == current then
    return nil
  elseif not current then
    return STALE
  end
  return STALE .. struct.pack('>I8', current) .. redis.call('HGET', call.queue, 'm')
end

-- Returns the outcome of a part that would exceed its limits together with the messages of the queue
-- and those in `new`, or nil. Expired messages do not count, so they are removed first.
local function full_outcome(part, new, is_due)
  if not part.messages_max then
    return nil
  end
  local exceeded
  if redis.call('HLEN', call.messages) + #new.headers + part.count > part.messages_max then
    exceeded = TOO_MANY
  elseif known_bytes() and call.stored_bytes + new.bytes + part.bytes > part.bytes_max then
    exceeded = TOO_LARGE
  end
  return exceeded and (is_due and DUE_FIRST or exceeded)
end

-- Returns the shards of each tenant of a part, and the names of the tenants.
local function read_tenants(part)
  local candidates, names = {}, {}
  for i = 1, part.tenants do
    local tenant = ARGV[part.at + i]
    local name_at = 3 + struct.unpack('>I2', tenant) * SHARD_DIGITS
    candidates[i], names[i] = split_shards(string.sub(tenant, 3, name_at - 1)), string.sub(tenant, name_at)
  end
  return candidates, names
end

-- Adds the messages of a part to `new`, and counts the messages of its tenants in `posted_counts`.
local function add_messages(part, new, posted_counts)
  local candidates, names
  if part.tenants > 0 then
    candidates, names = read_tenants(part)
  end
  local unpack_header, arguments, head, at = struct.unpack, ARGV, part.head, part.fields_at
  new.bytes = new.bytes + part.bytes
  local last_before, records_at = #new.headers, part.at + part.tenants
  local now_s_rounded_up = math.floor(call.now / 1000000) + 1
  for i = 1, part.count do
    local index = last_before + i
    local ttl
    new.headers[index], ttl, at = unpack_header(HEADER_AND_TTL, head, at)
    new.end_seconds[index] = now_s_rounded_up + ttl
    new.records[index] = arguments[records_at + i]
    if part.has_delays then
      new.delays = new.delays or {}
      new.delays[index], at = struct.unpack('>I4', head, at)
    end
    if candidates then
      local tenant
      tenant, at = struct.unpack('>I2', head, at)
      new.candidates[index] = candidates[tenant]
      posted_counts[names[tenant]] = (posted_counts[names[tenant]] or 0) + 1
    end
  end
end

-- Carries out all parts of the post to one queue. `first_key` is the index of its first key.
local function post_to(first_key, parts)
  local queue, messages, ready, delayed, expirations, shards, tenants, idempotency, idempotency_expirations =
    unpack(KEYS, first_key, first_key + keys_per_queue - 1)
  call = {
    now = clock_of(queue), queue = queue, messages = messages, ready = ready, delayed = delayed,
    expirations = expirations, shards = shards, tenants = tenants, idempotency = idempotency,
    idempotency_expirations = idempotency_expirations, due = DUE,
  }
  local is_due
  is_due, call.subscription_count = load_queue('n')
  local new, posted_counts = {headers = {}, end_seconds = {}, records = {}, candidates = {}, bytes = 0}, {}
  local accepted, first_with = {}, {}
  for _, part in ipairs(parts) do
    local duplicate_of = part.name and first_with[part.name]
    local outcome = repeated_outcome(part)
      or not duplicate_of and (stale_outcome(part) or full_outcome(part, new, is_due))
    if outcome then
      outcomes[part.number] = outcome
    else
      accepted[#accepted + 1] = part
      part.duplicate_of = duplicate_of
      if not duplicate_of then
        part.from = #new.headers + 1
        add_messages(part, new, posted_counts)
        if part.name then
          first_with[part.name] = part
        end
      end
    end
  end
  if #new.headers == 0 then
    return
  elseif is_due and (call.logical_packed or fairness()) then
    for _, part in ipairs(accepted) do
      outcomes[part.number] = DUE_FIRST
    end
    must_store_reply = true
    return
  end
  if new.delays then
    for index = 1, #new.headers do
      new.delays[index] = new.delays[index] or 0
    end
  end

  must_store_reply = true
  local keys = post_messages(new)
  if next(posted_counts) then
    count_tenants(posted_counts)
  end
  for _, part in ipairs(accepted) do
    local original = part.duplicate_of or part
    if original.digest ~= part.digest then
      outcomes[part.number] = OTHER_CONTENT
    elseif part.name or part.has_delays then
      local posted = table.concat(keys, '', original.from, original.from + original.count - 1)
      outcomes[part.number] = (part == original and KEYS_POSTED or KEYS_REPEATED) .. posted
      if part.name and part == original then
        store_outcome(part.name, part.digest .. posted, part.lifetime_s)
      end
    else
      outcomes[part.number] = RANKS_POSTED .. keys[part.from]
    end
  end
end

local last_reply = redis.call('GET', LAST_REPLY)
if last_reply then
  local last_sequence = struct.unpack(SEQUENCE, last_reply)
  if last_sequence == sequence then
    return cmsgpack.unpack(string.sub(last_reply, SEQUENCE_BYTES + 1))
  elseif last_sequence > sequence then
    return {LATE}
  end
end

local by_queue = {}
local at, number = FIRST_PART, 0
while at <= #ARGV do
  local head = ARGV[at]
  local queue_number, count, last_known_revision, lifetime_s, tenant_count, flags, bytes, fields_at =
    struct.unpack(HEAD, head)
  local part = {
    at = at, head = head, count = count, last_known_revision = last_known_revision, lifetime_s = lifetime_s,
    tenants = tenant_count, has_delays = flags % HAS_LIMITS == HAS_DELAYS, bytes = bytes, fields_at = fields_at,
  }
  if flags >= HAS_LIMITS then
    part.messages_max, part.bytes_max, part.fields_at = struct.unpack(LIMITS, head, fields_at)
  end
  number = number + 1
  part.number = number
  if lifetime_s > 0 then
    local name_at = #head - NAME_BYTES - DIGEST_BYTES + 1
    part.name, part.digest = string.sub(head, name_at, name_at + NAME_BYTES - 1), string.sub(head, name_at + NAME_BYTES)
  end
  by_queue[queue_number] = by_queue[queue_number] or {}
  table.insert(by_queue[queue_number], part)
  at = at + tenant_count + count + 1
end
for queue_number = 1, queues do
  local succeeded, failure = pcall(post_to, (queue_number - 1) * keys_per_queue + 1, by_queue[queue_number])
  if not succeeded then
    failure = type(failure) == 'table' and failure.err or tostring(failure)
    for _, part in ipairs(by_queue[queue_number]) do
      outcomes[part.number] = FAILED .. failure
    end
  end
end
if must_store_reply then
  redis.call('SET', LAST_REPLY, struct.pack(SEQUENCE, sequence) .. cmsgpack.pack(outcomes), 'PX', lifetime_ms)
end
return outcomes
