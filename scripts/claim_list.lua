-- Lists live claims in the order of their ids, with the number of messages that each still holds.
-- There are fewer than requested if the claims have many messages.
--
-- ARGV  1 claim id after which the list starts, or empty    2 maximum number of claims
-- Returns {'due'} if due changes must be applied first; otherwise {'claims', now, then for each
--       claim its id, ttl, since, fence, client and number of messages}.
assert(#ARGV == 2, 'claim_list: 2 arguments')

if load_queue() then
  return {'due'}
end
local answer, counted = {'claims', decimal(call.now)}, 0
for _, id in ipairs(redis.call('ZRANGEBYLEX', call.claim_ids, '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])) do
  local claim = read_claim(id)
  counted = counted + #(claim.entries or claim.keys)
  if counted > LISTED_MESSAGES_MAX and #answer > 2 then
    break
  end
  local held = held_count(id, claim)
  for _, item in ipairs({id, claim.ttl, decimal(claim.since), decimal(claim.fence), claim.client, held}) do
    answer[#answer + 1] = item
  end
end
return answer
