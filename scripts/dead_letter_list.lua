-- Lists the oldest dead letters in a queue's outbox, fewer than requested if the reply would be too
-- large.
--
-- ARGV  1 maximum number of dead letters
-- Returns the dead letters, in the format that shared/dead_letters.lua describes.
assert(#ARGV == 1, 'dead_letter_list: 1 argument')
local limit = tonumber(ARGV[1])

local dead_letters, bytes = {}, 0
for index = 0, limit - 1 do
  local dead_letter = redis.call('LINDEX', call.outbox, index)
  bytes = bytes + (dead_letter and #dead_letter or 0)
  if not dead_letter or bytes > REPLY_BYTES_MAX and index > 0 then
    break
  end
  dead_letters[#dead_letters + 1] = dead_letter
end
return dead_letters
