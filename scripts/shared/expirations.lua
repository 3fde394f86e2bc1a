-- When messages expire. Ranks are divided into blocks of 2^14 µs. `expirations` has each block that
-- holds a message, with the earliest second in which one of its messages may expire as the score.
--
-- A claim that prolongs a message's life changes nothing here: a visit to the block reads from the
-- entries which messages have expired and when the next one will. A block has at most 16,384
-- messages, because ranks are unique. A visit removes the block if it has no messages.
-- `remove_empty_blocks` keeps the number of empty blocks in proportion to the messages.
local BLOCK_US = 16384
local SPARE_BLOCKS = 64
local SAMPLED_BLOCKS_MAX = 64

local function block_of(rank)
  return math.floor(rank / BLOCK_US)
end

-- Records for each block the earliest second in which one of its messages may expire.
local function note_expirations(blocks)
  local members, earliest = {'LT'}, math.huge
  for block, second in pairs(blocks) do
    members[#members + 1], members[#members + 2] = second, decimal(block)
    earliest = math.min(earliest, second)
  end
  redis.call('ZADD', call.expirations, unpack(members))
  schedule_due(earliest * 1000000)
end
