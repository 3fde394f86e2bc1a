-- Reads the fields of the queue that most operations need. Returns whether something is due: then the driver runs
-- queue_settle before it tries again.
local revision, policy_packed, fairness_packed, last_visible, logical_packed
-- What fair.lua has read of `fairness_packed`: nil before that.
local known_fairness
local function load_queue()
  local last_text, next_due_text
  revision, policy_packed, fairness_packed, last_text, logical_packed, next_due_text =
    unpack(redis.call('HMGET', queue, 'v', 'p', 'f', 'c', 'l', 'd'))
  last_visible, next_due, known_fairness = tonumber(last_text) or 0, tonumber(next_due_text), nil
  if next_due and now >= next_due then
    return true
  elseif not logical_packed then
    return false
  end
  -- The clock has stepped back, so delayed messages are due at an earlier time of the clock than was noted.
  local offset, last_time = struct.unpack(LOGICAL_TIME, logical_packed)
  return now + offset < last_time
end
