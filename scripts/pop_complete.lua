-- Makes pops final: deletes their messages, if they have not returned to the queue.
--
-- ARGV  for each pop: its id; 'repeated' if it was sent more than once, so that it may arrive again, else
--       empty
-- Returns the number of pops that are final now, which are the first ones. There is at least one. The
--       others are left because they have too many messages for one script.
assert(#ARGV > 0 and #ARGV % 2 == 0, 'pop_complete: 2 arguments for each pop')
-- remove_empty_blocks keeps up with this number of messages.
local MESSAGES_MAX = 32

load_queue()
local ids, repeated, entries = {}, {}, {}
for i = 1, #ARGV, 2 do
  local id = ARGV[i]
  local _, _, popped = read_claim(id)
  popped = popped or {}
  if i > 1 and #entries + #popped > MESSAGES_MAX then
    break
  end
  ids[#ids + 1] = id
  if ARGV[i + 1] == 'repeated' then
    repeated[#repeated + 1] = id
  end
  for _, entry in ipairs(popped) do
    entries[#entries + 1] = entry
  end
end
local left = still_in_flight(entries)
if #left > 0 then
  remove_messages(call.in_flight, left)
  remove_empty_blocks(#left)
end
redis.call('ZREM', call.leases, unpack(ids))
redis.call('HDEL', call.claims, unpack(ids))
if call.revision then
  for _, id in ipairs(repeated) do
    store_ended(id)
  end
end
return #ids
