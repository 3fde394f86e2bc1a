-- List the dead letters that wait longest in a queue's outbox, fewer where the answer would grow too large.
--
-- KEYS  the queue's
-- ARGV  1 how many at most
-- Returns the letters, as letters.lua describes them.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'letter_list: the keys of the queue, 1 argument')
local limit = tonumber(ARGV[1])

local letters, bytes = {}, 0
for place = 0, limit - 1 do
  local letter = redis.call('LINDEX', outbox, place)
  bytes = bytes + (letter and #letter or 0)
  if not letter or bytes > ANSWER_BYTES_MAX and place > 0 then
    break
  end
  letters[#letters + 1] = letter
end
return letters
