-- Replaces values with bodies that are still the same.
--
-- ARGV  1 'messages', 'retries' or 'outbox'
--       then for each value: its name, which is empty in the outbox; the value; the new one
-- Returns the number of values that were replaced.
assert(#ARGV >= 1 and #ARGV % 3 == 1, 'sealed_replace: 1 argument and threes')
local part, replaced = ARGV[1], 0

for i = 2, #ARGV, 3 do
  local name, old, new = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if part == 'outbox' then
    local at = redis.call('LPOS', call.outbox, old)
    if at then
      redis.call('LSET', call.outbox, at, new)
      replaced = replaced + 1
    end
  else
    local hash = part == 'messages' and call.messages or call.retries
    if redis.call('HGET', hash, name) == old then
      redis.call('HSET', hash, name, new)
      replaced = replaced + 1
    end
  end
end
return replaced
