-- Live claims. `leases` has them by expiry. `claims` has the ttl (s) of each, the time (µs) at
-- which its term started, and the in-flight entries of its messages. A message that was returned
-- with a delay has a lease of its own, named by RETURNED and its entry.
local CLAIM = '>I4I8'
local CLAIM_HEAD_BYTES = 12
local RETURNED = '~'

-- Returns a claim's ttl, the time at which its term started, and the entries that it was given or
-- has renewed; nothing if the claim is not live.
local function read_claim(id)
  local claim = redis.call('HGET', claims, id)
  if claim then
    local ttl, since = struct.unpack(CLAIM, claim)
    return ttl, since, split(string.sub(claim, CLAIM_HEAD_BYTES + 1), IN_FLIGHT_BYTES)
  end
end

local function store_claim(id, ttl, entries)
  local end_us = now + ttl * 1000000
  redis.call('HSET', claims, id, struct.pack(CLAIM, ttl, now) .. table.concat(entries))
  redis.call('ZADD', leases, decimal(end_us), id)
  schedule_due(end_us)
end

-- Returns those of the entries that are still in flight unchanged.
local function still_in_flight(entries)
  local found = {}
  for i, score in ipairs(query_in_chunks('ZMSCORE', in_flight, entries)) do
    if score then
      found[#found + 1] = entries[i]
    end
  end
  return found
end

-- Makes messages in flight available again at their old positions. `to_entry` makes their new
-- entries.
local function return_to_ready(entries, to_entry)
  if #entries == 0 then
    return
  end
  local returned, lowest = {}, math.huge
  for i, entry in ipairs(entries) do
    returned[i] = to_entry(entry)
    lowest = math.min(lowest, rank_of(entry))
  end
  call_in_chunks('ZREM', in_flight, entries)
  call_in_chunks('ZADD', ready, by_rank(returned))
  if fairness() then
    local keys = keys_of(entries)
    put_into_shards(keys, AVAILABLE, shards_of(keys))
  end
  notify(#entries, lowest)
end

-- Returns the entry of a message whose claim was released or has expired.
local function released_entry(entry)
  return string.sub(entry, 1, DELIVERED_BYTES)
end

-- Returns a claim as the reply of a script. `waiting` is the number of dead letters to forward.
-- `is_first_claim` has one flag for each message of a new claim: '1' if it was never claimed
-- before.
local function claim_reply(waiting, ttl, since, is_first_claim, entries)
  local reply = {'claim', waiting, decimal(now), ttl, decimal(since), is_first_claim}
  for i, entry in ipairs(entries) do
    reply[6 + i] = entry
  end
  return reply
end
