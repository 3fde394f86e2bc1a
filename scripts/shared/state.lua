-- The last visible rank and the total of posted messages. They are one field, because a post changes
-- both.
local FEED_STATE = '>I8I8'

-- Loads the fields of the queue that most operations need. Returns whether due changes must be
-- applied first, and up to two further fields that are named. If changes must be applied first, the
-- driver runs queue_apply_due and tries again. It sets these fields of `call`:
--   revision, policy_packed, fairness_packed, logical_packed
--                 as they are stored; nil if they are not
--   last_visible, posted_total
--                 the last visible rank and the total of posted messages
--   next_due      the time (µs) before which nothing is due; nil if nothing will be due
--   stored_bytes  sum of the sizes of all messages; nil if it is not stored. Then the queue has no
--                 messages, or some that an earlier release has posted (`known_bytes`).
local function load_queue(...)
  local revision, policy, fairness, feed_state, logical, next_due, bytes, one, other =
    unpack(redis.call('HMGET', call.queue, 'v', 'p', 'f', 'c', 'l', 'd', 'b', ...))
  call.revision, call.policy_packed, call.fairness_packed, call.logical_packed = revision, policy, fairness, logical
  call.next_due, call.stored_bytes = tonumber(next_due), tonumber(bytes)
  call.last_visible, call.posted_total, call.loaded_fairness = 0, 0, nil
  if feed_state then
    call.last_visible, call.posted_total = struct.unpack(FEED_STATE, feed_state)
  end
  if call.next_due and call.now >= call.next_due then
    return true, one, other
  elseif not call.logical_packed then
    return false, one, other
  end
  -- If the clock has stepped back, delayed messages are due at an earlier time of the clock than
  -- was recorded.
  local offset, last_time = struct.unpack(LOGICAL_TIME, call.logical_packed)
  return call.now + offset < last_time, one, other
end
