-- Counts the messages in a range of shards of a fair queue and those without a shard, and lists the
-- tenants that posted most recently, with a weighted count of their messages.
--
-- ARGV  1 first shard, in four digits    2 last shard
-- Returns {'due'} if due changes must be applied first. Otherwise {'shards', now, then in this
--       order:
--   of the messages without a shard, the numbers of available, delayed and in-flight ones, and the
--   rank of the oldest available one or 0;
--   the number of shards that follow, and for each the shard and the same four numbers;
--   for each tenant its name and count}.
assert(#ARGV == 2, 'queue_shards: 2 arguments')
local first, last = ARGV[1], ARGV[2]

if load_queue() then
  return {'due'}
end
local rows, by_shard = {}, {}
for column, digit in ipairs({AVAILABLE, DELAYED, IN_FLIGHT}) do
  local from = digit .. first
  while fairness() do
    local head = redis.call('ZRANGEBYSCORE', call.shards, from, digit .. last, 'WITHSCORES', 'LIMIT', '0', '1')
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
    row[column] = redis.call('ZCOUNT', call.shards, score, score)
    row[4] = column == 1 and decimal(rank_of(head[1])) or row[4]
  end
end
local reply = {'shards', decimal(call.now)}
for _, set in ipairs({{call.ready, AVAILABLE}, {call.delayed, DELAYED}, {call.in_flight, IN_FLIGHT}}) do
  local all, digit = redis.call('ZCARD', set[1]), set[2]
  reply[#reply + 1] = all - redis.call('ZCOUNT', call.shards, digit .. FIRST_SHARD, digit .. LAST_SHARD)
end
local oldest = fairness() and available_at(UNSHARDED, 0, 1) or redis.call('ZRANGE', call.ready, 0, 0)
reply[#reply + 1], reply[#reply + 2] = oldest[1] and decimal(rank_of(oldest[1])) or 0, #rows
for _, row in ipairs(rows) do
  reply[#reply + 1] = row[1]
  for column = 1, 4 do
    reply[#reply + 1] = row[2][column]
  end
end
for _, item in ipairs(fairness() and redis.call('ZRANGE', call.tenants, 0, -1, 'REV', 'WITHSCORES') or {}) do
  reply[#reply + 1] = item
end
return reply
