-- Posts the messages of some requests: of each request all, in order, behind every other message, or none.
--
-- Each request has an outcome of its own; an error in one queue does not concern the others. A post only adds, so what is due
-- need not be applied first, except in a fair queue, where it matters which messages a shard has.
--
-- KEYS  of each queue those that a post needs; the last answer given in this retry slot (string); the index of due queues
-- ARGV  1 number of queues    2 how many keys each has    3 the retry slot's sequence number
--       4 how long the slot's answer is remembered (ms)
--       then for each request: its head (see below), in a fair queue its tenants (how many shards each has in two bytes, these, and
--       its name), and the record of each of its messages
-- Returns for each request: 'p' and its messages' keys, joined; 's', revision (8 bytes) and metadata, or just 's', when the queue is
--       not as the request has seen it; 'o' when its idempotency key came with other content before; 'u' when something is due in
--       its queue, a fair one; 'f' and the error that Redis has answered. Or just 'l' for a sequence number that is no longer
--       the retry slot's newest.
local queues, queue_keys, sequence, remembered_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
assert(#KEYS == queues * queue_keys + 2 and #ARGV >= 6, 'message_post: the keys of each queue and two, 4 arguments and those of a request')
local ANSWER = KEYS[#KEYS - 1]
due = KEYS[#KEYS]
local FIRST = 5
-- Which of the queues, number of messages, the revision that the request was made for, for how long its outcome is kept under an
-- idempotency key (s; 0: it has none), number of tenants (0: the queue is not fair by its metadata), whether a message has a delay;
-- for each message its nonce, poster, size class, ttl (s), if any has a delay its delay (s), and if there are tenants which of them
-- is its own; the name of the idempotency key and a digest of the request's body.
local HEAD = '>I2I4I8I4I2B'
local HEAD_BYTES = 21
local PLACE_BYTES, NAME_BYTES = END - RANK_BYTES, 16
local SEQUENCE = '>I8'
local SEQUENCE_BYTES = 8
local outcomes = {}
local has_posted = false

-- The kept outcome of a request with an idempotency key.
local function repeated_outcome(request)
  local kept = request.name and kept_outcome(request.name)
  if kept and string.sub(kept, 1, #request.digest) ~= request.digest then
    return 'o'
  end
  return kept and 'p' .. string.sub(kept, #request.digest + 1)
end

-- The outcome of a request that is not carried out because the queue has changed.
local function stale_outcome(request)
  local current = tonumber(revision)
  if request.seen == current then
    return nil
  elseif not current then
    return 's'
  end
  return 's' .. struct.pack('>I8', current) .. redis.call('HGET', queue, 'm')
end

-- The tenants of a request: the shards of each, and its name.
local function tenants_of(request)
  local lots, names = {}, {}
  for i = 1, request.tenants do
    local tenant = ARGV[request.at + i]
    local name_at = 3 + struct.unpack('>I2', tenant) * SHARD_DIGITS
    lots[i], names[i] = shards_in(string.sub(tenant, 3, name_at - 1)), string.sub(tenant, name_at)
  end
  return lots, names
end

-- Adds the messages of a request to those to post, and its tenants to those to count.
local function add_messages(request, new, ends, posted_by)
  local now_s, head, at = math.floor(now / 1000000), request.head, HEAD_BYTES + 1
  local lots, names = tenants_of(request)
  for i = 1, request.count do
    local place = #new.places + 1
    local ttl = struct.unpack('>I4', head, at + PLACE_BYTES)
    local stop = now_s + 1 + ttl
    ends[ttl] = ends[ttl] or struct.pack('>I4', stop)
    new.places[place] = string.sub(head, at, at + PLACE_BYTES - 1)
    new.ends[place], new.stops[place] = ends[ttl], stop
    new.records[place] = ARGV[request.at + request.tenants + i]
    at = at + PLACE_BYTES + 4
    if request.has_delays then
      new.delays = new.delays or {}
      new.delays[place] = struct.unpack('>I4', head, at)
      at = at + 4
    end
    if request.tenants > 0 then
      local tenant = struct.unpack('>I2', head, at)
      new.lots[place] = lots[tenant]
      posted_by[names[tenant]] = (posted_by[names[tenant]] or 0) + 1
      at = at + 2
    end
  end
end

-- Carries out all requests on one queue, the keys of which begin there.
local function post_to(first_key, requests)
  queue, messages, ready, delayed, expirations, shards, tenants, idempotency, idempotency_expirations =
    unpack(KEYS, first_key, first_key + queue_keys - 1)
  now = clock_of(queue)
  lengths = {}
  local is_due = load_queue()
  local new, ends, posted_by = {places = {}, ends = {}, stops = {}, records = {}, lots = {}}, {}, {}
  local accepted, first_with = {}, {}
  for _, request in ipairs(requests) do
    local duplicate_of = first_with[request.name]
    local outcome = repeated_outcome(request) or not duplicate_of and stale_outcome(request)
    if outcome then
      outcomes[request.number] = outcome
    else
      accepted[#accepted + 1] = request
      request.duplicate_of = duplicate_of
      if not duplicate_of then
        request.from = #new.places + 1
        add_messages(request, new, ends, posted_by)
        if request.name then
          first_with[request.name] = request
        end
      end
    end
  end
  if #new.places == 0 then
    return
  elseif is_due and fairness() then
    for _, request in ipairs(accepted) do
      outcomes[request.number] = 'u'
    end
    return
  end
  if new.delays then
    for place = 1, #new.places do
      new.delays[place] = new.delays[place] or 0
    end
  end

  has_posted = true
  local keys = post(new)
  if next(posted_by) then
    count_tenants(posted_by)
  end
  for _, request in ipairs(accepted) do
    local original = request.duplicate_of
    if not original then
      request.keys = table.concat(keys, '', request.from, request.from + request.count - 1)
      outcomes[request.number] = 'p' .. request.keys
      if request.name then
        keep_outcome(request.name, request.digest .. request.keys, request.kept_s)
      end
    elseif original.digest == request.digest then
      outcomes[request.number] = 'p' .. original.keys
    else
      outcomes[request.number] = 'o'
    end
  end
end

local last_answer = redis.call('GET', ANSWER)
if last_answer then
  local answered = struct.unpack(SEQUENCE, last_answer)
  if answered == sequence then
    return cmsgpack.unpack(string.sub(last_answer, SEQUENCE_BYTES + 1))
  elseif answered > sequence then
    return {'l'}
  end
end

local by_queue = {}
local at, number = FIRST, 0
while at <= #ARGV do
  local head = ARGV[at]
  local of, count, seen, kept_s, tenants_given, has_delays = struct.unpack(HEAD, head)
  local name_at = HEAD_BYTES + 1
    + count * (PLACE_BYTES + 4 + (has_delays > 0 and 4 or 0) + (tenants_given > 0 and 2 or 0))
  number = number + 1
  by_queue[of] = by_queue[of] or {}
  table.insert(by_queue[of], {
    number = number, at = at, head = head, count = count, seen = seen, kept_s = kept_s,
    name = kept_s > 0 and string.sub(head, name_at, name_at + NAME_BYTES - 1) or nil,
    digest = string.sub(head, name_at + NAME_BYTES),
    tenants = tenants_given, has_delays = has_delays > 0,
  })
  at = at + tenants_given + count + 1
end
for of = 1, queues do
  local is_done, failure = pcall(post_to, (of - 1) * queue_keys + 1, by_queue[of])
  if not is_done then
    failure = type(failure) == 'table' and failure.err or tostring(failure)
    for _, request in ipairs(by_queue[of]) do
      outcomes[request.number] = 'f' .. failure
    end
  end
end
if has_posted then
  redis.call('SET', ANSWER, struct.pack(SEQUENCE, sequence) .. cmsgpack.pack(outcomes), 'PX', remembered_ms)
end
return outcomes
