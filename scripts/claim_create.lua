-- Claims the available messages of a queue that are next, fewer than wanted where their records would be too large for one answer.
--
-- A message that would end before the claim lives until the claim's ttl and grace are over. A message that was delivered as often as
-- the queue allows goes to the queue's dead letters instead.
--
-- ARGV  1 the maximum number of messages    2 the new claim's id, by which a repeated call recognizes itself
--       3 its ttl (s)    4 its grace (s)    5 the shards that it prefers
-- Returns {'due'} when something is due; {'none', number of dead letters to forward}; {'moved', that number} when
--       all messages that were next became dead letters, so that there may be others behind them; or {'claim', that number, now, ttl, since, which messages
--       were never claimed before, entries ...}.
assert(#ARGV == 5, 'claim_create: 5 arguments')
local limit, id, ttl, grace = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if load_queue() then
  return {'due'}
end
local rules = policy()
local known_ttl, since, known = read_claim(id)
if known_ttl then
  return show_claim(waiting_dead_letters(rules), known_ttl, since, '', still_in_flight(known))
end
local live, live_positions, has_moved_all = next_to_deliver(limit, shards_in(ARGV[5]), rules)
local waiting = waiting_dead_letters(rules)
if #live == 0 then
  note_turns()
  return {has_moved_all and 'moved' or 'none', waiting}
end

local fresh = {}
for i, entry in ipairs(live) do
  fresh[i] = #entry == FRESH_BYTES and '1' or '0'
end
local claimed = under_claim(live, id, ttl, grace, rules.target ~= '' and 1 or 0)
take(live)
note_turns()
redis.call('ZADD', in_flight, unpack(by_rank(claimed)))
if fairness() then
  put_into_shards(keys_of(live), IN_FLIGHT, live_positions)
end
keep_claim(id, ttl, claimed)
return show_claim(waiting, ttl, now, table.concat(fresh), claimed)
