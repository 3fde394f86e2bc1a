-- Verifies that claims of a queue expire when they should and are listed, and that each key in a
-- shard belongs to a message. Changes nothing.
--
-- ARGV  1 'leases', 'claims', 'claim_ids' or 'shards'    2 where to continue, '0' at first    3 approximate
--       number to check
-- Returns {'checked', where to continue or empty, then for each finding a claim id or message key
--       and a text}.
assert(#ARGV == 3, 'queue_check_claims: 3 arguments')
local part, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

load_queue()
local answer = {'checked', ''}
local function expect(condition, what, finding)
  if not condition then
    answer[#answer + 1], answer[#answer + 2] = what, finding
  end
end

if part == 'leases' then
  local first = tonumber(from)
  local found = redis.call('ZRANGE', leases, first, first + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local lease, ends_at = found[i], tonumber(found[i + 1])
    if #lease == CLAIM_BYTES then
      local ttl, since = read_claim(lease)
      expect(ttl, lease, 'does not exist and ends')
      expect(not ttl or since + ttl * 1000000 == ends_at, lease, 'ends at another time than it should')
    end
    expect(next_due and next_due <= ends_at, lease, 'ends without being due')
  end
  answer[2] = #found == 2 * limit and decimal(first + limit) or ''
  return answer
end
local found
if part == 'claims' then
  found = redis.call('HSCAN', claims, from, 'COUNT', limit)
else
  found = redis.call('ZSCAN', part == 'claim_ids' and claim_ids or shards, from, 'COUNT', limit)
end
for i = 1, #found[2], 2 do
  local name = found[2][i]
  if part == 'claims' then
    expect(redis.call('ZSCORE', leases, name), name, 'never ends')
    expect(redis.call('ZSCORE', claim_ids, name), name, 'is not listed')
  elseif part == 'claim_ids' then
    expect(redis.call('HEXISTS', claims, name) == 1, name, 'does not exist and is listed')
  else
    expect(redis.call('HEXISTS', messages, name) == 1, name, 'is in a shard and has no record')
  end
end
answer[2] = found[1] == '0' and '' or found[1]
return answer
