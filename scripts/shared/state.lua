-- Loads the fields of the queue that most operations need. Returns whether due changes must be
-- applied first, and up to two further fields that are named. If changes must be applied first, the
-- driver runs queue_apply_due and tries again.
local revision, policy_packed, fairness_packed, last_visible, posted_total, logical_packed
-- The last visible rank and the total of posted messages. They are one field, because a post changes
-- both.
local FEED_STATE = '>I8I8'
-- Sum of the sizes of all messages; nil if it is not stored. Then the queue has no messages, or some
-- that an earlier release has posted (`known_bytes`).
local stored_bytes
-- What fair.lua has read from `fairness_packed`; nil before that.
local loaded_fairness
local function load_queue(...)
  local feed_state, next_due_text, bytes_text, one, other
  revision, policy_packed, fairness_packed, feed_state, logical_packed, next_due_text, bytes_text, one, other =
    unpack(redis.call('HMGET', queue, 'v', 'p', 'f', 'c', 'l', 'd', 'b', ...))
  last_visible, posted_total, next_due, loaded_fairness = 0, 0, tonumber(next_due_text), nil
  stored_bytes = tonumber(bytes_text)
  if feed_state then
    last_visible, posted_total = struct.unpack(FEED_STATE, feed_state)
  end
  if next_due and now >= next_due then
    return true, one, other
  elseif not logical_packed then
    return false, one, other
  end
  -- If the clock has stepped back, delayed messages are due at an earlier time of the clock than
  -- was recorded.
  local offset, last_time = struct.unpack(LOGICAL_TIME, logical_packed)
  return now + offset < last_time, one, other
end
