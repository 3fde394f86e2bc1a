-- A queue that moves to another pool. Meanwhile its contents have other keys, with `moving:` before
-- their names, so that no operation finds the queue. The store that it leaves has renamed them, and
-- the store that it moves to has copies.
--   moving  hash  l label: the epoch under which the move began; c present if the contents are
--                 complete; t time (µs) when the lease of the process that moves the queue expires
-- A script for all contents gets their keys after its own ones: those by which operations find them,
-- and then those that they have while the queue moves, in the same order.
local function plain_key(own_keys, i)
  return call.keys[own_keys + i]
end

local function moving_key(own_keys, i)
  return call.keys[own_keys + MOVED_KEYS + i]
end

local function remove_moving_contents(own_keys)
  redis.call('UNLINK', unpack(call.keys, own_keys + MOVED_KEYS + 1, own_keys + 2 * MOVED_KEYS))
end

-- Returns the command for the size of a key, or nil if it does not exist.
local function size_command(key)
  return ({hash = 'HLEN', zset = 'ZCARD', list = 'LLEN'})[redis.call('TYPE', key).ok]
end

-- Returns number, command for the size, size and remaining lifetime (ms, or 0) of each key that the
-- queue has while it moves.
local function moving_contents(own_keys)
  local contents = {}
  for i = 1, MOVED_KEYS do
    local key = moving_key(own_keys, i)
    local command = size_command(key)
    if command then
      contents[#contents + 1] = i
      contents[#contents + 1] = command
      contents[#contents + 1] = redis.call(command, key)
      contents[#contents + 1] = math.max(redis.call('PTTL', key), 0)
    end
  end
  return contents
end

local function read_move()
  local label, is_complete, lease_ends_at = unpack(redis.call('HMGET', call.moving, 'l', 'c', 't'))
  return tonumber(label), is_complete, tonumber(lease_ends_at)
end
