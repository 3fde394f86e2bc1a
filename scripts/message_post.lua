-- Post the messages of some requests: of each all of them, in order, behind every other, or none.
--
-- Each request has an outcome of its own; what goes wrong in one queue does not concern the others.
-- Nothing is settled first: a post only adds. But in a fair queue it matters what is there.
--
-- KEYS  of each queue those that a post needs; the last answer given to this lane (string); the answers that are
--       kept for the requests' idempotency keys (strings)
-- ARGV  1 how many queues    2 how many idempotency keys
--       3 the lane's sequence number    4 how long the lane's answer is remembered (ms)
--       then for each request: its head (see below), in a fair queue its tenants (how many shards each has drawn in two
--       bytes, these, and its name), and the record of each of its messages
-- Returns for each request: 'p' and its messages' keys, joined; 's', revision (8 bytes) and metadata, or just 's', when
--       the queue is not as the request has seen it; 'o' when its idempotency key came with something else before; 'u' when its queue, a fair one, has to be settled first; 'f' and
--       what Redis complains of. Or else just 'l' for a sequence number that the lane has left behind.
assert(#KEYS == ARGV[1] * POST_KEYS + 1 + ARGV[2], 'message_post: the keys of each queue, one, and those for idempotency keys')
assert(#ARGV >= 6, 'message_post: 4 arguments and those of a request')
local queues, sequence, remembered_ms = tonumber(ARGV[1]), tonumber(ARGV[3]), ARGV[4]
local ANSWER = queues * POST_KEYS + 1
local FIRST = 5
-- Which of the queues, how many messages, the revision that it was made for, which of the kept answers is its own (0: none),
-- how long that is kept (s), how many tenants (0: the queue is not fair by its metadata); for each message its nonce, its delay (s)
-- and, if there are tenants, which of them is its; a digest of what came with the idempotency key.
local HEAD = '>I2I4I8I2I4I2'
local HEAD_BYTES = 22
local NONCE_BYTES, PLACE_BYTES, TENANT_BYTES = 5, 9, 2
local SEQUENCE = '>I8'
local SEQUENCE_BYTES = 8
local outcomes = {}
local has_posted = false

-- The answer that is kept for a request, as an outcome.
local function kept_outcome(request)
  local kept = request.kept and redis.call('GET', request.kept)
  if kept and string.sub(kept, 1, #request.digest) ~= request.digest then
    return 'o'
  end
  return kept and 'p' .. string.sub(kept, #request.digest + 1)
end

-- What a request gets without being carried out, if it is not to be.
local function refusal(request, revision)
  if request.seen == revision then
    return nil
  elseif not revision then
    return 's'
  end
  return 's' .. struct.pack('>I8', revision) .. redis.call('HGET', queue, 'm')
end

-- The tenants of a request: what each has drawn, and its name.
local function tenants_of(request)
  local lots, names = {}, {}
  for i = 1, request.tenants do
    local tenant = ARGV[request.at + i]
    local drawn = struct.unpack('>I2', tenant)
    local name_at = 3 + drawn * SHARD_DIGITS
    lots[i], names[i] = shards_in(string.sub(tenant, 3, name_at - 1)), string.sub(tenant, name_at)
  end
  return lots, names
end

-- Carries out all requests on one queue, the keys of which begin there.
local function post_to(first_key, requests)
  queue, counter, messages, ready, delayed, ends, shards, tenants, leases = unpack(KEYS, first_key, first_key + POST_KEYS - 1)
  if first_key > 1 then
    now = clock(queue)
  end
  local revision, divided = unpack(redis.call('HMGET', queue, 'v', 'f'))
  revision, known_fairness, lengths = tonumber(revision), read_fairness(divided), {}
  local now_s = math.ceil(now / 1000000)
  local nonces, delays, records, seconds, lots = {}, {}, {}, {}, {}
  local posted, first_with, posted_by = {}, {}, {}
  for _, request in ipairs(requests) do
    local twin = first_with[request.kept]
    local outcome = kept_outcome(request) or not twin and refusal(request, revision)
    if outcome then
      outcomes[request.number] = outcome
    elseif twin then
      request.twin = twin
      posted[#posted + 1] = request
    else
      posted[#posted + 1] = request
      request.from = #records + 1
      local drawn, names = tenants_of(request)
      for i = 1, request.count do
        local place, record = HEAD_BYTES + (i - 1) * request.place_bytes + 1, ARGV[request.at + request.tenants + i]
        nonces[#nonces + 1] = string.sub(request.head, place, place + NONCE_BYTES - 1)
        delays[#delays + 1] = struct.unpack('>I4', request.head, place + NONCE_BYTES)
        records[#records + 1] = record
        seconds[#seconds + 1] = now_s + ttl_in(record)
        if request.tenants > 0 then
          local tenant = struct.unpack('>I2', request.head, place + PLACE_BYTES)
          lots[#records] = drawn[tenant]
          posted_by[names[tenant]] = (posted_by[names[tenant]] or 0) + 1
        end
      end
      if request.kept then
        first_with[request.kept] = request
      end
    end
  end
  if #records == 0 then
    return
  elseif fairness() and is_unsettled() then
    for _, request in ipairs(posted) do
      outcomes[request.number] = 'u'
    end
    return
  end

  has_posted = true
  local keys = post(nonces, delays, records, seconds, lots)
  if next(posted_by) then
    count_tenants(posted_by)
  end
  for _, request in ipairs(posted) do
    local twin = request.twin
    if not twin then
      request.keys = table.concat(keys, '', request.from, request.from + request.count - 1)
      outcomes[request.number] = 'p' .. request.keys
      if request.kept then
        redis.call('SET', request.kept, request.digest .. request.keys, 'EX', request.kept_s)
      end
    elseif twin.digest == request.digest then
      outcomes[request.number] = 'p' .. twin.keys
    else
      outcomes[request.number] = 'o'
    end
  end
end

local last_answer = redis.call('GET', KEYS[ANSWER])
if last_answer then
  local answered = struct.unpack(SEQUENCE, last_answer)
  if answered == sequence then
    return cmsgpack.unpack(string.sub(last_answer, SEQUENCE_BYTES + 1))
  elseif answered > sequence then
    return {'l'}
  end
end

local by_queue = {}
local at = FIRST
local number = 0
while at <= #ARGV do
  local head = ARGV[at]
  local of, count, seen, kept, kept_s, tenants_given = struct.unpack(HEAD, head)
  local place_bytes = PLACE_BYTES + (tenants_given > 0 and TENANT_BYTES or 0)
  number = number + 1
  by_queue[of] = by_queue[of] or {}
  table.insert(by_queue[of], {
    number = number, at = at, head = head, count = count, seen = seen,
    kept = kept > 0 and KEYS[ANSWER + kept], kept_s = kept_s,
    tenants = tenants_given, place_bytes = place_bytes, digest = string.sub(head, HEAD_BYTES + count * place_bytes + 1),
  })
  at = at + tenants_given + count + 1
end
for of = 1, queues do
  local is_done, failure = pcall(post_to, (of - 1) * POST_KEYS + 1, by_queue[of])
  if not is_done then
    failure = type(failure) == 'table' and failure.err or tostring(failure)
    for _, request in ipairs(by_queue[of]) do
      outcomes[request.number] = 'f' .. failure
    end
  end
end
if has_posted then
  redis.call('SET', KEYS[ANSWER], struct.pack(SEQUENCE, sequence) .. cmsgpack.pack(outcomes), 'PX', remembered_ms)
end
return outcomes
