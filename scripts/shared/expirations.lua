-- When messages end. Ranks are divided into blocks of 2^14 µs, and `expirations` has each block that holds a message, with
-- the earliest second in which one of these may end as its score. A claim that prolongs a message's life changes nothing:
-- when a block is visited, the entries say which messages have ended and when the next one will. A block has at most 16,384
-- messages, because ranks are unique. Blocks are removed when they are visited without a message; `forget_empty_blocks`
-- keeps those that deletions leave in proportion to the messages.
local BLOCK_US = 16384
local SPARE_BLOCKS = 64
local SAMPLED_BLOCKS_MAX = 64

local function block_of(rank)
  return math.floor(rank / BLOCK_US)
end

-- Notes the earliest second in which a message may end, for each block.
local function note_expirations(blocks)
  local members, earliest = {'LT'}, math.huge
  for block, second in pairs(blocks) do
    members[#members + 1], members[#members + 2] = second, decimal(block)
    earliest = math.min(earliest, second)
  end
  redis.call('ZADD', expirations, unpack(members))
  note_due(earliest * 1000000)
end
