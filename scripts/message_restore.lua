-- Restores popped messages that did not reach their client, unchanged and at their old positions,
-- unless the queue was deleted or purged since. They count as posted again, because they counted as
-- deleted when they were popped.
--
-- ARGV  1 name by which a repeated call recognizes itself    2 how long that name is kept (s)    3
--       the queue's epoch at the pop
--       then for each message: its entry, its record, its shard or empty
-- Returns 'gone' if the queue was deleted or purged; 'repeated' if the messages were restored
-- before; otherwise 'restored'.
assert(#ARGV >= 6 and #ARGV % 3 == 0, 'message_restore: 3 arguments and threes')
local name, lifetime_s, epoch = ARGV[1], tonumber(ARGV[2]), ARGV[3]

load_queue()
if redis.call('HGET', queue, 'e') ~= epoch then
  return 'gone'
elseif redis.call('HEXISTS', idempotency, name) == 1 then
  return 'repeated'
end
store_outcome(name, '', lifetime_s)
local entries, records, last_shards = {}, {}, {}
for i = 4, #ARGV, 3 do
  local index = #entries + 1
  entries[index], records[index], last_shards[index] = ARGV[i], ARGV[i + 1], ARGV[i + 2] ~= '' and ARGV[i + 2]
end
restore_messages(entries, records, last_shards)
return 'restored'
