-- Takes, renews or gives up the janitor lease, by which one process at a time does maintenance, and
-- says which maintenance is due.
--
-- KEYS  1 lease (hash): h process that holds it, u expiry (µs), d end of the last round over due
--       queues (µs), w end of the last walk over all queues (µs)
-- ARGV  1 process    2 duration of the lease (ms)
--       3 what the process has just finished: 'due', 'walk' or empty
--       4 pause between two rounds over due queues (ms)    5 pause between two walks (ms)
-- Returns {'denied'} if another process holds the lease; {'idle'}, and gives the lease up, if no
--       maintenance is due; otherwise {'granted', whether due queues are to be visited (1 or 0),
--       whether a walk is to be done (1 or 0)}.
assert(#KEYS >= 1 and #ARGV == 5, 'janitor_lease: 1 key, 5 arguments')
local lease, process, duration_ms, finished = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- Processes wake up slightly before or after the end of a pause.
local TOLERANCE = 0.9

local holder, end_us, last_due_at, last_walk_at = unpack(redis.call('HMGET', lease, 'h', 'u', 'd', 'w'))
-- A clock that has stepped back must not prolong a lease or a pause.
local is_live = holder and call.now < tonumber(end_us) and call.now >= tonumber(end_us) - duration_ms * 1000
if is_live and holder ~= process then
  return {'denied'}
end
-- Frees memory before anything grows, so that this works when the store is full.
redis.call('HDEL', lease, 'h', 'u')
if finished ~= '' then
  redis.call('HSET', lease, finished == 'walk' and 'w' or 'd', call.now)
end
local function has_passed(since, pause_ms)
  since = tonumber(since)
  return not since or since > call.now or call.now - since >= pause_ms * 1000 * TOLERANCE
end
local due_is_due = finished ~= 'due' and has_passed(last_due_at, tonumber(ARGV[4]))
local walk_is_due = has_passed(last_walk_at, tonumber(ARGV[5]))
-- A walk is the last part of a round.
if finished == 'walk' or not due_is_due and not walk_is_due then
  return {'idle'}
end
redis.call('HSET', lease, 'h', process, 'u', call.now + duration_ms * 1000)
return {'granted', due_is_due and 1 or 0, walk_is_due and 1 or 0}
