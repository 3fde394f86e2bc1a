-- Posts the messages of some requests.
--
-- Requests that must be accepted or refused together are one part of the post. Of each part all messages are posted, in order, behind
-- every other message, or none. Each part has an outcome of its own; an error in one queue does not concern the others. A post only
-- adds, so what is due need not be applied first, except in a fair queue, where it matters which messages a shard has, and where delayed
-- messages may stand in the way.
--
-- KEYS  of each queue those that a post needs; the last answer given in this retry slot (string); the index of due queues
-- ARGV  1 number of queues    2 how many keys each has    3 the retry slot's sequence number
--       4 how long the slot's answer is remembered (ms)
--       then for each part: its head (see below), in a fair queue its tenants (how many shards each has in two bytes, these, and its
--       name), and the record of each of its messages
-- Returns for each part: 'r' and the key of its first message, when the others have the ranks behind that one's; 'p' and its
--       messages' keys, joined; 's', revision (8 bytes) and metadata, or just 's', when the queue is not as the requests have seen it;
--       'o' when its idempotency key came with other content before; 'u' when what is due in its queue must be applied first; 'f' and the
--       error that Redis has answered. Or just 'l' for a sequence number that is no longer the retry slot's newest.
local queues, queue_keys, sequence, remembered_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
assert(#KEYS == queues * queue_keys + 2 and #ARGV >= 6, 'message_post: the keys of each queue and two, 4 arguments and those of a part')
local ANSWER = KEYS[#KEYS - 1]
due = KEYS[#KEYS]
local FIRST = 5
-- Which of the queues, number of messages, the revision that the requests were made for, for how long the outcome is kept under an
-- idempotency key (s; 0: it has none), number of tenants (0: the queue is not fair by its metadata), whether a message has a delay;
-- for each message its nonce, poster, size class, ttl (s), if any has a delay its delay (s), and if there are tenants which of them
-- is its own; the name of the idempotency key and a digest of the request's body.
local HEAD = '>I2I4I8I4I2B'
local NAME_BYTES = 16
local SEQUENCE = '>I8'
local SEQUENCE_BYTES = 8
local outcomes = {}
-- Whether this must not happen again if the script is repeated.
local must_remember = false

-- The kept outcome of a request with an idempotency key.
local function repeated_outcome(part)
  local kept = part.name and kept_outcome(part.name)
  if kept and string.sub(kept, 1, #part.digest) ~= part.digest then
    return 'o'
  end
  return kept and 'p' .. string.sub(kept, #part.digest + 1)
end

-- The outcome of a part that is not carried out because the queue has changed.
local function stale_outcome(part)
  local current = tonumber(revision)
  if part.seen == current then
    return nil
  elseif not current then
    return 's'
  end
  return 's' .. struct.pack('>I8', current) .. redis.call('HGET', queue, 'm')
end

-- The tenants of a part: the shards of each, and its name.
local function tenants_of(part)
  local lots, names = {}, {}
  for i = 1, part.tenants do
    local tenant = ARGV[part.at + i]
    local name_at = 3 + struct.unpack('>I2', tenant) * SHARD_DIGITS
    lots[i], names[i] = shards_in(string.sub(tenant, 3, name_at - 1)), string.sub(tenant, name_at)
  end
  return lots, names
end

-- Adds the messages of a part to those to post, and its tenants to those to count. Notes where its idempotency key begins.
local function add_messages(part, new, posted_by)
  local lots, names
  if part.tenants > 0 then
    lots, names = tenants_of(part)
  end
  local unpack_place, arguments, head, at = struct.unpack, ARGV, part.head, part.places_at
  local last_before, records_at = #new.places, part.at + part.tenants
  local latest_now = math.floor(now / 1000000) + 1
  for i = 1, part.count do
    local place = last_before + i
    local ttl
    new.places[place], ttl, at = unpack_place(PLACE, head, at)
    new.stops[place] = latest_now + ttl
    new.records[place] = arguments[records_at + i]
    if part.has_delays then
      new.delays = new.delays or {}
      new.delays[place], at = struct.unpack('>I4', head, at)
    end
    if lots then
      local tenant
      tenant, at = struct.unpack('>I2', head, at)
      new.lots[place] = lots[tenant]
      posted_by[names[tenant]] = (posted_by[names[tenant]] or 0) + 1
    end
  end
end

-- Carries out all parts of the post to one queue, the keys of which begin there.
local function post_to(first_key, parts)
  queue, messages, ready, delayed, expirations, shards, tenants, idempotency, idempotency_expirations =
    unpack(KEYS, first_key, first_key + queue_keys - 1)
  now = clock_of(queue)
  lengths = {}
  local is_due = load_queue()
  local new, posted_by = {places = {}, stops = {}, records = {}, lots = {}}, {}
  local accepted, first_with = {}, {}
  for _, part in ipairs(parts) do
    local duplicate_of = part.name and first_with[part.name]
    local outcome = repeated_outcome(part) or not duplicate_of and stale_outcome(part)
    if outcome then
      outcomes[part.number] = outcome
    else
      accepted[#accepted + 1] = part
      part.duplicate_of = duplicate_of
      if not duplicate_of then
        part.from = #new.places + 1
        add_messages(part, new, posted_by)
        if part.name then
          first_with[part.name] = part
        end
      end
    end
  end
  if #new.places == 0 then
    return
  elseif is_due and (logical_packed or fairness()) then
    for _, part in ipairs(accepted) do
      outcomes[part.number] = 'u'
    end
    must_remember = true
    return
  end
  if new.delays then
    for place = 1, #new.places do
      new.delays[place] = new.delays[place] or 0
    end
  end

  must_remember = true
  local keys = post(new)
  if next(posted_by) then
    count_tenants(posted_by)
  end
  for _, part in ipairs(accepted) do
    local original = part.duplicate_of or part
    if original.digest ~= part.digest then
      outcomes[part.number] = 'o'
    elseif part.name or part.has_delays then
      local posted = table.concat(keys, '', original.from, original.from + original.count - 1)
      outcomes[part.number] = 'p' .. posted
      if part.name and part == original then
        keep_outcome(part.name, part.digest .. posted, part.kept_s)
      end
    else
      outcomes[part.number] = 'r' .. keys[part.from]
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
  local of, count, seen, kept_s, tenants_given, has_delays, places_at = struct.unpack(HEAD, head)
  local part = {
    at = at, head = head, count = count, seen = seen, kept_s = kept_s, tenants = tenants_given, has_delays = has_delays > 0,
    places_at = places_at,
  }
  number = number + 1
  part.number = number
  if kept_s > 0 then
    local name_at = #head - 2 * NAME_BYTES + 1
    part.name, part.digest = string.sub(head, name_at, name_at + NAME_BYTES - 1), string.sub(head, name_at + NAME_BYTES)
  end
  by_queue[of] = by_queue[of] or {}
  table.insert(by_queue[of], part)
  at = at + tenants_given + count + 1
end
for of = 1, queues do
  local is_done, failure = pcall(post_to, (of - 1) * queue_keys + 1, by_queue[of])
  if not is_done then
    failure = type(failure) == 'table' and failure.err or tostring(failure)
    for _, part in ipairs(by_queue[of]) do
      outcomes[part.number] = 'f' .. failure
    end
  end
end
if must_remember then
  redis.call('SET', ANSWER, struct.pack(SEQUENCE, sequence) .. cmsgpack.pack(outcomes), 'PX', remembered_ms)
end
return outcomes
