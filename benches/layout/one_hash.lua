-- Stores all records of the queue in one hash.
local fields = {}
for i = 1, n do
  fields[2 * i - 1] = keys[i]
  fields[2 * i] = records[i]
end
pairwise('HSET', KEYS[5], fields)
