-- Like expiry_chunks.lua, but the incomplete chunk is in the queue hash, which is read and written
-- anyway. A chunk is written when it is full, or when a message of another second is posted.
local open_second, open = tonumber(queue[3]), queue[4] or ''
local entries = {}

local function close(packed)
  entries[#entries + 1] = open_second
  entries[#entries + 1] = packed
end

local function note(second_of_end, packed)
  local full, from = CHUNK * 12, 1
  if open_second ~= second_of_end then
    if open ~= '' then
      close(open)
    end
    open_second, open = second_of_end, ''
  end
  packed = open .. packed
  while #packed - from + 1 >= full do
    close(packed:sub(from, from + full - 1))
    from = from + full
  end
  open = packed:sub(from)
end

local function finish()
  pairwise('ZADD', KEYS[6], entries)
  redis.call('HSET', KEYS[1], 'n', (queue[2] or 0) + n, 'x', open_second, 'o', open)
end
