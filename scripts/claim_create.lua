-- Claim the free messages of a queue that are next, fewer than wanted where the answer would grow too large.
--
-- A message that would end before the claim does lives on until the claim's ttl and grace are over. One that
-- was given out as often as the queue allows goes to the queue's dead letters instead.
--
-- KEYS  the queue's
-- ARGV  1 how many at most    2 the new claim's id, by which a repeated call knows itself again
--       3 its ttl (s)    4 its grace (s)    5 the shards that it prefers
-- Returns {'again'} when it was busy settling; {'none', how many dead letters wait to be delivered}; or
--       {'claim', that number, now, ttl, since, which were never claimed before, key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 5, 'claim_create: the keys of the queue, 5 arguments')
local limit, id, ttl, grace = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if settle() then
  return {'again'}
end
local rules = policy()
if redis.call('HEXISTS', claims, id) == 1 then
  return show_claim(id, waiting_letters(rules))
end
local loaded = load_next(limit, shards_in(ARGV[5]))
local given = worth_giving_out(loaded, rules)
local letters = waiting_letters(rules)
local keys, held_by = given.keys, {}
if #keys == 0 then
  return {'none', letters}
end

local fresh = {}
for i = 1, #keys do
  fresh[i] = given.holds[i] and '0' or '1'
  held_by[i] = hold_at(given, i)
  -- It is counted where it is bounded.
  held_by[i].count = held_by[i].count + (rules.target ~= '' and 1 or 0)
end
move(keys, ready, held, given.positions)
given.holds = hold_for(keys, held_by, id, ttl, grace)
keep_claim(id, ttl, keys)
return shown_claim(letters, ttl, now, table.concat(fresh), given)
