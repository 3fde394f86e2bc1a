-- Lists the dead letters that have waited longest in a queue's outbox, fewer where the answer would be too large.
--
-- ARGV  1 the maximum number
-- Returns the dead letters, as dead_letters.lua describes them.
assert(#ARGV == 1, 'dead_letter_list: 1 argument')
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
