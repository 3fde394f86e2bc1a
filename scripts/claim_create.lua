-- Claims the next available messages of a queue.
--
-- A message that would expire before the claim does lives until the claim's ttl and grace have
-- passed. A message that has been delivered as often as the queue allows moves to the queue's dead
-- letters instead. The claim has fewer messages than requested if their records are too large for
-- one reply.
--
-- ARGV  1 maximum number of messages    2 id of the new claim, which identifies a retry of this call
--       3 ttl (s)    4 grace (s)    5 shards that the claim prefers, in four digits each    6 id of
--       the client that claims
-- Returns {'due'} if due changes must be applied first. Otherwise returns one of these; the number
--       is that of the dead letters to forward:
--   {'none', number} if no message is available;
--   {'paused', 0} if the queue is paused;
--   {'repeated', number} if the claim exists, because this is a retry;
--   {'moved', number, 1 if they come to the end of this queue, else 0} if all the next messages became
--   dead letters, so that others may follow them;
--   {'claim', number, now, ttl, since, fence, flags, entries ...}. Each message has one flag: '1' if
--   this is its first claim, else '0'.
assert(#ARGV == 6, 'claim_create: 6 arguments')
local limit, id, ttl, grace, client = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[6]

local is_due, is_paused, counters = load_queue('z', 'k')
if is_due then
  return {'due'}
end
local policy = read_policy()
if redis.call('HEXISTS', call.claims, id) == 1 then
  return {'repeated', outbox_length_of(policy)}
elseif is_paused then
  return {'paused', 0}
end
local deliverable, positions, all_moved = next_deliverable(limit, split_shards(ARGV[5]), policy)
local outbox_length = outbox_length_of(policy)
if #deliverable == 0 then
  record_turns()
  if all_moved then
    return {'moved', outbox_length, is_own_dead_letter_queue(policy)}
  end
  return {'none', outbox_length}
end

local is_first_claim = {}
for i = 1, #deliverable do
  is_first_claim[i] = #deliverable[i] == FRESH_BYTES and '1' or '0'
end
local claimed = claimed_entries(deliverable, id, ttl, grace, 1)
put_in_flight(deliverable, claimed, positions)
-- The first fence follows the last visible rank, and so the fences of a deleted queue of that name.
local last_fence, claimed_before = call.last_visible, 0
if counters then
  last_fence, claimed_before = struct.unpack(CLAIM_COUNTERS, counters)
end
local fence = math.max(last_fence + 1, call.now)
redis.call('HSET', call.queue, 'k', struct.pack(CLAIM_COUNTERS, fence, claimed_before + #claimed))
store_claim(id, ttl, claimed, fence, client)
redis.call('ZADD', call.claim_ids, '0', id)
return claim_reply(outbox_length, ttl, call.now, fence, table.concat(is_first_claim), claimed)
