-- Look whether some claims of a queue end when they should, and whether some holds and places in shards have a message. Changes
-- nothing.
--
-- KEYS  the queue's
-- ARGV  1 'leases', 'claims', 'holds' or 'shards'    2 where to go on; '0' at first    3 how many to look at, about
-- Returns {'looked', where to go on or nothing, what is wrong: a claim or the key of a message, what, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 3, 'queue_check_claims: the keys of the queue, 3 arguments')
local part, from, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local looked = {'looked', ''}
local function expect(is_so, what, finding)
  if not is_so then
    looked[#looked + 1], looked[#looked + 2] = what, finding
  end
end

if part == 'leases' then
  local first = tonumber(from)
  local found = redis.call('ZRANGE', leases, first, first + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local lease, stop = found[i], tonumber(found[i + 1])
    if #lease == CLAIM_ID_BYTES then
      local ttl, since = claim_of(lease)
      expect(ttl, lease, 'is not there and ends')
      expect(not ttl or since + ttl * 1000000 == stop, lease, 'ends at another time than it should')
    end
  end
  looked[2] = #found == 2 * limit and decimal(first + limit) or ''
  return looked
end
local found
if part == 'shards' then
  found = redis.call('ZSCAN', shards, from, 'COUNT', limit)
else
  found = redis.call('HSCAN', part == 'claims' and claims or holds, from, 'COUNT', limit)
end
for i = 1, #found[2], 2 do
  local name = found[2][i]
  if part == 'claims' then
    expect(redis.call('ZSCORE', leases, name), name, 'never ends')
  else
    local is_there = redis.call('HEXISTS', messages, name) == 1
    expect(is_there, name, part == 'shards' and 'is in a shard and has no record' or 'is held and has no record')
  end
end
looked[2] = found[1] == '0' and '' or found[1]
return looked
