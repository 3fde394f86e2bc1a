-- Writes an expiry entry for each message.
local entries = {}
for i = 1, n do
  entries[2 * i - 1] = ends[i]
  entries[2 * i] = keys[i]
end
pairwise('ZADD', KEYS[6], entries)
