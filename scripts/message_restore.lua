-- Put popped messages back that reached nobody, as they were and in their old places.
--
-- KEYS  the queue's, and where it is remembered that this has happened
-- ARGV  1 how long that is remembered (ms)
--       then for each message: its key, its record, its hold or nothing, its shard or nothing
-- Returns 'absent' when there is no such queue; 'repeated' when it has happened before; else 'restored'.
assert(#KEYS == QUEUE_KEYS + 1 and #ARGV >= 5 and #ARGV % 4 == 1, 'message_restore: the keys of the queue and one, 1 argument and fours')
local done, remembered_ms = KEYS[QUEUE_KEYS + 1], ARGV[1]

if redis.call('EXISTS', queue) == 0 then
  return 'absent'
elseif not redis.call('SET', done, 1, 'NX', 'PX', remembered_ms) then
  return 'repeated'
end
local divided = fairness()
local loaded, known = {keys = {}, records = {}, holds = {}}, {}
for i = 2, #ARGV, 4 do
  local place = #loaded.keys + 1
  loaded.keys[place], loaded.records[place] = ARGV[i], ARGV[i + 1]
  loaded.holds[place] = ARGV[i + 2] ~= '' and ARGV[i + 2]
  known[place] = divided and ARGV[i + 3] ~= '' and rank_of(ARGV[i]) > divided.boundary and ARGV[i + 3]
end
for place, key in ipairs(loaded.keys) do
  redis.call('HSET', messages, key, loaded.records[place])
  if loaded.holds[place] then
    redis.call('HSET', holds, key, loaded.holds[place])
  end
  note_end(hold_at(loaded, place).second, {key})
end
redis.call('ZADD', ready, unpack(by_rank(loaded.keys)))
if divided then
  put_into_shards(loaded.keys, ready, known)
end
tell(#loaded.keys)
return 'restored'
