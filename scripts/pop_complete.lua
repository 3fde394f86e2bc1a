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
local ids, fields, repeated, left = {}, {}, {}, {}
for i = 1, #ARGV, 2 do
  local id = ARGV[i]
  local pop = read_claim(id)
  if i > 1 and pop and #left + #(pop.entries or pop.keys) > MESSAGES_MAX then
    break
  end
  ids[#ids + 1], fields[#fields + 1] = id, id
  if pop and pop.keys then
    fields[#fields + 1] = id .. HELD
  end
  if ARGV[i + 1] == 'repeated' then
    repeated[#repeated + 1] = id
  end
  for _, entry in ipairs(pop and held_entries(id, pop) or {}) do
    left[#left + 1] = entry
  end
end
if #left > 0 then
  remove_messages(call.in_flight, left)
  remove_empty_blocks(#left)
end
redis.call('ZREM', call.leases, unpack(ids))
redis.call('HDEL', call.claims, unpack(fields))
if call.revision then
  for _, id in ipairs(repeated) do
    store_ended(id)
  end
end
return #ids
