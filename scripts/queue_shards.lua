-- Counts the messages in some shards of a fair queue and those without a shard, and shows the tenants that posted most recently.
--
-- ARGV  1 the first shard, in four digits    2 the last one
-- Returns {'due'} when something is due; otherwise {'shards', now, of the messages without a shard the numbers of those available,
--       delayed and in flight and the rank of the oldest available one or 0; the number of shards shown, for each that has a message
--       its number and the same four; then each tenant's name and count}.
assert(#ARGV == 2, 'queue_shards: 2 arguments')
local first, last = ARGV[1], ARGV[2]

if load_queue() then
  return {'due'}
end
local rows, by_shard = {}, {}
for place, digit in ipairs({FREE, DELAYED, IN_FLIGHT}) do
  local from = digit .. first
  while fairness() do
    local head = redis.call('ZRANGEBYSCORE', shards, from, digit .. last, 'WITHSCORES', 'LIMIT', '0', '1')
    local score = head[2]
    if not score then
      break
    end
    from = '(' .. score
    local shard = string.sub(score, 2)
    if not by_shard[shard] then
      by_shard[shard] = {0, 0, 0, 0}
      rows[#rows + 1] = {shard, by_shard[shard]}
    end
    local row = by_shard[shard]
    row[place] = redis.call('ZCOUNT', shards, score, score)
    row[4] = place == 1 and decimal(rank_of(head[1])) or row[4]
  end
end
local shown = {'shards', decimal(now)}
for _, set in ipairs({{ready, FREE}, {delayed, DELAYED}, {in_flight, IN_FLIGHT}}) do
  local all, digit = redis.call('ZCARD', set[1]), set[2]
  shown[#shown + 1] = all - redis.call('ZCOUNT', shards, digit .. FIRST_SHARD, digit .. LAST_SHARD)
end
local oldest = fairness() and free_at(UNSHARDED, 0, 1) or redis.call('ZRANGE', ready, 0, 0)
shown[#shown + 1], shown[#shown + 2] = oldest[1] and decimal(rank_of(oldest[1])) or 0, #rows
for _, row in ipairs(rows) do
  shown[#shown + 1] = row[1]
  for place = 1, 4 do
    shown[#shown + 1] = row[2][place]
  end
end
for _, item in ipairs(fairness() and redis.call('ZRANGE', tenants, 0, -1, 'REV', 'WITHSCORES') or {}) do
  shown[#shown + 1] = item
end
return shown
