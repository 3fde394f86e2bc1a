-- Take, keep or give up the lease by which one process at a time does maintenance, and say what there is to do.
--
-- KEYS  1 the lease (hash): h who holds it, u until when (µs), d when due queues were last done (µs), w when the last walk ended (µs)
-- ARGV  1 the process    2 how long the lease lasts (ms)    3 what the process has just finished: 'due', 'walk' or nothing
--       4 the pause between two rounds over due queues (ms)    5 the pause between two walks (ms)
-- Returns {'taken'} if another process holds the lease; {'rest'} if there is nothing to do, without a lease; else {'due', whether due
--       queues are to be done (1 or 0), whether a walk is to be done (1 or 0)} with the lease.
assert(#KEYS == 1 and #ARGV == 5, 'janitor_lease: 1 key, 5 arguments')
local lease, process, lasts_ms, finished = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- Processes wake up some time before or after the end of a pause.
local TOLERANCE = 0.9

local holder, stop, due_at, walk_at = unpack(redis.call('HMGET', lease, 'h', 'u', 'd', 'w'))
-- A clock that has stepped back must not prolong a lease or a pause.
local is_live = holder and now < tonumber(stop) and now >= tonumber(stop) - lasts_ms * 1000
if is_live and holder ~= process then
  return {'taken'}
end
-- Frees before anything grows, so that this works when the store is full.
redis.call('HDEL', lease, 'h', 'u')
if finished ~= '' then
  redis.call('HSET', lease, finished == 'walk' and 'w' or 'd', now)
end
local function is_over(since, pause_ms)
  since = tonumber(since)
  return not since or since > now or now - since >= pause_ms * 1000 * TOLERANCE
end
local is_due = finished ~= 'due' and is_over(due_at, tonumber(ARGV[4]))
local walks = is_over(walk_at, tonumber(ARGV[5]))
-- A walk is the last thing in a round.
if finished == 'walk' or not is_due and not walks then
  return {'rest'}
end
redis.call('HSET', lease, 'h', process, 'u', now + lasts_ms * 1000)
return {'due', is_due and 1 or 0, walks and 1 or 0}
