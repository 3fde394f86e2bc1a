-- Claim the oldest free messages of a queue, fewer than wanted where the answer would grow too large.
--
-- A message that would end before the claim does lives on until the claim's ttl and grace are over. One that
-- was given out as often as the queue allows goes to the queue's dead letters instead.
--
-- KEYS  the queue's
-- ARGV  1 how many at most    2 the new claim's id, by which a repeated call knows itself again
--       3 its ttl (s)    4 its grace (s)
-- Returns {'again'} when it was busy settling; {'none', how many dead letters wait to be delivered}; or
--       {'claim', that number, now, ttl, since, key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 4, 'claim_create: the keys of the queue, 4 arguments')
local limit, id, ttl, grace = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if settle() then
  return {'again'}
end
local rules = policy()
if not claim_of(id) then
  local keys = fitting(redis.call('ZRANGE', ready, 0, limit - 1))
  keys = worth_giving_out(keys, rules)
  if #keys > 0 then
    redis.call('ZREM', ready, unpack(keys))
    for _, key in ipairs(keys) do
      redis.call('ZADD', held, rank_of(key), key)
      hold_for(key, id, ttl, grace)
    end
    count_giving_out(keys, rules)
    keep_claim(id, ttl, keys)
  end
end
return show_claim(id, waiting_letters(rules))
