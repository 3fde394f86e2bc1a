-- Ends a claim: the messages that it still holds become available again, at their old positions.
--
-- ARGV  1 the claim's id    2 'withdrawn' if the client never got the claim: then its messages are as they were before it
-- Returns {'due'} when something is due; otherwise {'done'}, also for a claim that is not live.
assert(#ARGV == 2, 'claim_release: 2 arguments')
local id, is_withdrawn = ARGV[1], ARGV[2] == 'withdrawn'

if load_queue() then
  return {'due'}
end
local function as_before(entry)
  return string.sub(entry, 1, FRESH_BYTES) .. delivery_before(entry)
end

local _, _, entries = read_claim(id)
redis.call('ZREM', leases, id)
redis.call('HDEL', claims, id)
local held = entries and still_in_flight(entries) or {}
give_back(held, is_withdrawn and as_before or delivered)
if is_withdrawn and #held > 0 then
  -- They may end earlier again than it was noted.
  local blocks = {}
  for _, entry in ipairs(held) do
    local block = block_of(rank_of(entry))
    blocks[block] = math.min(blocks[block] or math.huge, end_of(as_before(entry)))
  end
  note_expirations(blocks)
end
return {'done'}
