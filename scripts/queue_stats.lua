-- Count a queue's messages, on demand in each shard, and show the first and the last of them.
--
-- KEYS  the queue's
-- ARGV  1 'detailed' to count in each shard
-- Returns {'again'} when it was busy settling; {'stats', now, how many, how many of them claimed, how many rows, how many tenants},
--       a row for each shard that has a message and one (UNSHARDED) for what is in none: its number, how many are free, how many
--       delayed, how many claimed, the rank of the oldest free one or 0; each tenant's name and how much it has posted of late; and if
--       there are any messages, key, record and hold of the oldest one and the newest one.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'queue_stats: the keys of the queue, 1 argument')
local detailed = ARGV[1] == 'detailed'

if settle() then
  return {'again'}
end
-- The first or last message of the three sets, each of which may be empty. Ranks are compared and not
-- keys: Lua compares text as the server's locale does.
local function pick(place, is_before)
  local picked
  for _, set in ipairs({ready, delayed, held}) do
    local key = redis.call('ZRANGE', set, place, place)[1]
    if key and not (picked and is_before(rank_of(picked), rank_of(key))) then
      picked = key
    end
  end
  return picked
end

-- What each shard has, set by set: free, delayed, claimed.
local function rows_of_shards()
  local rows, by_shard = {}, {}
  for place, digit in ipairs({FREE, DELAYED, HELD}) do
    local from = digit .. FIRST_SHARD
    while true do
      local head = redis.call('ZRANGEBYSCORE', shards, from, digit .. LAST_SHARD, 'WITHSCORES', 'LIMIT', '0', '1')
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
  return rows
end

-- The same, with one more row: the sets have what no shard has.
local function all_rows()
  local rows = fairness() and rows_of_shards() or {}
  local rest = {redis.call('ZCARD', ready), redis.call('ZCARD', delayed), redis.call('ZCARD', held), 0}
  for _, row in ipairs(rows) do
    for place = 1, 3 do
      rest[place] = rest[place] - row[2][place]
    end
  end
  local oldest = fairness() and free_at(UNSHARDED, 0, 1) or redis.call('ZRANGE', ready, 0, 0)
  rest[4] = oldest[1] and decimal(rank_of(oldest[1])) or 0
  rows[#rows + 1] = {UNSHARDED, rest}
  return rows
end

local rows = detailed and all_rows() or {}
local busiest = detailed and fairness() and redis.call('ZRANGE', tenants, 0, -1, 'REV', 'WITHSCORES') or {}
local stats = {'stats', decimal(now), redis.call('HLEN', messages), redis.call('ZCARD', held), #rows, #busiest / 2}
for _, row in ipairs(rows) do
  stats[#stats + 1] = row[1]
  for place = 1, 4 do
    stats[#stats + 1] = row[2][place]
  end
end
for _, item in ipairs(busiest) do
  stats[#stats + 1] = item
end
local oldest = pick(0, function(a, b) return a < b end)
if oldest then
  show(stats, load({oldest}))
  show(stats, load({pick(-1, function(a, b) return a > b end)}))
end
return stats
