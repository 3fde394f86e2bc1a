-- The keys of a queue. crates/storage/src/redis/script.rs says which keys each script gets, as fields of
-- `call` with these names:
--   queue        hash  m   metadata
--                      p   packed policy (policy.lua)
--                      v   revision
--                      u   token of the last update
--                      s   registration version
--                      a   registration version that the last move to this store gave it
--                      e   epoch: changes when the queue is created or purged, and no later queue
--                          of the name has it
--                      c   last visible rank and total of posted messages (state.lua)
--                      b   sum of the sizes of messages (state.lua)
--                      o   last number of a dead letter
--                      f   sharding of a fair queue (fair.lua)
--                      l   logical time while any message is delayed (logical_time.lua)
--                      d   time (µs) before which nothing is due
--                      x   progress in a block of expirations (queue_apply_due.lua)
--                      k   last fence and number of claimed messages (claims.lua)
--                      z   present while the queue is paused
--                      te  total of expired messages, absent for 0
--                      td  total of dead-lettered messages, absent for 0
--                      n   number of subscriptions, absent for 0
--                      g   stamp of the last purge of subscriptions, absent if there was none: the
--                          time (µs), but higher than the stamp before
--                      w   lease of the process that delivers to them (deliveries.lua)
--   messages     hash  key → record (storage/record.rs)
--   ready, in_flight, delayed
--                zset  entries by rank (entry.lua). Every message is in one of the three:
--                      available; claimed, or returned with a delay; not due yet
--   expirations  zset  blocks of ranks by the earliest second in which one of their messages may
--                      expire (expirations.lua)
--   leases       zset  claims, and messages returned with a delay, by the time (µs) when they end
--   claims       hash  id of a claim or pop → its ttl, start of its term, fence, client, and the keys or
--                      entries of its messages; with `#`, how many a claim still holds (claims.lua)
--   claim_ids    zset  ids of live claims, for lists; all scores are 0
--   outbox       list  dead letters and redriven messages on their way to another queue
--                      (dead_letters.lua)
--   received     hash  queue → number of the last dead letter that came from it, and when (µs)
--   shards       zset  keys of messages in the shards of a fair queue (fair.lua)
--   tenants      zset  tenants that posted most recently, by number of messages (sharding.lua)
--   tasks        hash  task id → its record (tasks.lua)
--   task_leases  hash  id of a running task → the lease of the process that works on it
--                      (task_lease.lua)
--   subscriptions, subscribers
--                hash  subscription id → its record (subscriptions.lua); subscriber → id
--   subscription_ids, subscription_ends
--                zset  ids of subscriptions, for lists, all scores are 0; ids by the second in which
--                      the subscription expires
--   deliveries   hash  progress and last attempts of subscriptions (subscriptions.lua)
--   retries, retry_times
--                hash, zset  subscription and message → the message, to be delivered again; those
--                      by subscription and the time when they are due; all scores are 0
--   idempotency, idempotency_expirations
--                hash, zset  idempotency key → digest and keys of its post; keys by expiry (µs)
--   tombstone    hash  of a deleted queue, for a day: v registration version, c the last rank,
--                      fence or number that it may have assigned
--   moving       hash  of a queue that moves to another pool (moving.lua)
--   due          zset  of all queues in the slot: queues in which something is due, by that time
--                      (µs) or an earlier one
-- A message key is the rank (7 bytes, big-endian) and the nonce (5 bytes).

-- Formats an integer. Numbers in Lua are doubles, which are exact up to 2^53, and so are ranks.
local function decimal(number)
  return string.format('%d', number)
end

local function rank_of(key)
  return (struct.unpack(RANK, key))
end

-- Splits a string into pieces of this many bytes.
local function split(text, bytes)
  local pieces = {}
  for from = 1, #text, bytes do
    pieces[#pieces + 1] = string.sub(text, from, from + bytes - 1)
  end
  return pieces
end

-- Runs a variadic command on many values in several calls, because Lua passes at most some
-- thousands of values at once. Pairs stay together. Returns the sum of the replies.
local VALUES_PER_CALL_MAX = 2000
local function call_in_chunks(command, key, values)
  if #values > 0 and #values <= VALUES_PER_CALL_MAX then
    return redis.call(command, key, unpack(values))
  end
  local sum = 0
  for from = 1, #values, VALUES_PER_CALL_MAX do
    sum = sum + redis.call(command, key, unpack(values, from, math.min(from + VALUES_PER_CALL_MAX - 1, #values)))
  end
  return sum
end

-- The same for a command that replies with a list of one item per value.
local function query_in_chunks(command, key, values)
  local items = {}
  for from = 1, #values, VALUES_PER_CALL_MAX do
    local last = math.min(from + VALUES_PER_CALL_MAX - 1, #values)
    for _, item in ipairs(redis.call(command, key, unpack(values, from, last))) do
      items[#items + 1] = item
    end
  end
  return items
end

-- Returns the hash tag of the queue's keys, which names it in the index of due queues.
local function hash_tag()
  return string.match(call.queue, '{(.*)}')
end

-- Records that something will be due in the queue at this time (µs). `call.next_due` is the time
-- before which nothing is due, or nil if nothing will be due. It may be too early but is never too
-- late.
local function schedule_due(time)
  if not call.next_due or time < call.next_due then
    call.next_due = time
    redis.call('HSET', call.queue, 'd', decimal(time))
    redis.call('ZADD', call.due, 'LT', decimal(time), hash_tag())
  end
end
