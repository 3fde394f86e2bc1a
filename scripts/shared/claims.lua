-- Live claims: in `leases` by their end, and in `claims` with their ttl (s), the time (µs) since which they run, and the entries
-- in flight of their messages. A message that was returned with a delay has a lease of its own, named RETURNED and its entry.
local CLAIM = '>I4I8'
local CLAIM_HEAD_BYTES = 12
local RETURNED = '~'

-- A claim's ttl, the time since which it runs, and the entries that it was given or has renewed; nothing if it is not live.
local function read_claim(id)
  local claim = redis.call('HGET', claims, id)
  if claim then
    local ttl, since = struct.unpack(CLAIM, claim)
    return ttl, since, pieces_of(string.sub(claim, CLAIM_HEAD_BYTES + 1), IN_FLIGHT_BYTES)
  end
end

local function keep_claim(id, ttl, entries)
  local stop = now + ttl * 1000000
  redis.call('HSET', claims, id, struct.pack(CLAIM, ttl, now) .. table.concat(entries))
  redis.call('ZADD', leases, decimal(stop), id)
  note_due(stop)
end

-- Of these entries, those that are still in flight as they are.
local function still_in_flight(entries)
  local still = {}
  for i, score in ipairs(ask_for_all('ZMSCORE', in_flight, entries)) do
    if score then
      still[#still + 1] = entries[i]
    end
  end
  return still
end

-- Makes messages in flight available again, at their old positions, as `available` shapes their entries.
local function give_back(entries, available)
  if #entries == 0 then
    return
  end
  local given, lowest = {}, math.huge
  for i, entry in ipairs(entries) do
    given[i] = available(entry)
    lowest = math.min(lowest, rank_of(entry))
  end
  call_with_all('ZREM', in_flight, entries)
  call_with_all('ZADD', ready, by_rank(given))
  if fairness() then
    local keys = keys_of(entries)
    put_into_shards(keys, FREE, shards_of(keys))
  end
  notify(#entries, lowest)
end

-- The entry of a message whose claim was released or has ended.
local function delivered(entry)
  return string.sub(entry, 1, DELIVERED_BYTES)
end

-- A claim as scripts answer it: the number of dead letters that wait to be forwarded, now, ttl, since, which messages were never
-- claimed before ('1' each, in a new claim), entries.
local function show_claim(waiting, ttl, since, fresh, entries)
  local shown = {'claim', waiting, decimal(now), ttl, decimal(since), fresh}
  for i, entry in ipairs(entries) do
    shown[6 + i] = entry
  end
  return shown
end
