-- Ends a claim: the messages that it still holds become available again at their old positions.
--
-- ARGV  1 claim id    2 'withdrawn' if the client never received the claim, else empty; the
--       messages of a withdrawn claim return to their state before it
-- Returns {'due'} if due changes must be applied first; otherwise {'done'}, also if the claim is
--       not live.
assert(#ARGV == 2, 'claim_release: 2 arguments')
local id, is_withdrawn = ARGV[1], ARGV[2] == 'withdrawn'

if load_queue() then
  return {'due'}
end
local function entry_before_claim(entry)
  return string.sub(entry, 1, FRESH_BYTES) .. delivery_before(entry)
end

local _, _, claim_entries = read_claim(id)
redis.call('ZREM', leases, id)
redis.call('HDEL', claims, id)
redis.call('ZREM', claim_ids, id)
local entries_left = claim_entries and still_in_flight(claim_entries) or {}
return_to_ready(entries_left, is_withdrawn and entry_before_claim or released_entry)
if is_withdrawn and #entries_left > 0 then
  -- Without the claim, the messages may expire earlier than was recorded for it.
  local blocks = {}
  for _, entry in ipairs(entries_left) do
    local block = block_of(rank_of(entry))
    blocks[block] = math.min(blocks[block] or math.huge, current_end_s(entry_before_claim(entry)))
  end
  note_expirations(blocks)
end
return {'done'}
