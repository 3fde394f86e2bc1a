-- Gives new messages of a fair queue their shards, and counts who posts.
local TENANTS_MAX = 32
local TENANT_COUNT_MAX = 10000
local TENANTS_KEPT_S = 3600

-- Whether a claim is over or a message has ended that still counts.
local function is_unsettled()
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 1)
  local ended = redis.call('ZRANGEBYSCORE', ends, '-inf', math.floor(now / 1000000), 'LIMIT', 0, 1)
  return over[1] or ended[1]
end

-- What the shards have to give, now or later, as far as it was looked at.
local lengths = {}

local function length_of(shard, delays)
  local length = lengths[shard]
  if not length then
    length = redis.call('ZCOUNT', shards, FREE .. shard, FREE .. shard)
    if delays then
      length = length + redis.call('ZCOUNT', shards, DELAYED .. shard, DELAYED .. shard)
    end
    lengths[shard] = length
  end
  return length
end

-- The shard of a lot for its next message: the first that has nothing to give, else the one that has least. Whether anything
-- was delayed before it is known.
local function shard_from(lot, delays)
  local shortest, least
  for _, shard in ipairs(lot) do
    local length = length_of(shard, delays)
    if not least or length < least then
      shortest, least = shard, length
    end
    if length == 0 then
      break
    end
  end
  lengths[shortest] = least + 1
  return shortest
end

-- Counts messages of some tenants, by name. As many as there is room for are counted; the one that has posted least makes room
-- for another, who takes its count over (the Space-Saving algorithm). Counts are halved as they grow, so that what was
-- posted long ago counts little.
local function count_tenants(posted)
  for name, count in pairs(posted) do
    local counted = tonumber(redis.call('ZINCRBY', tenants, count, name))
    if counted == count and redis.call('ZCARD', tenants) > TENANTS_MAX then
      local least = redis.call('ZRANGE', tenants, 0, 1, 'WITHSCORES')
      local at = least[1] == name and 3 or 1
      redis.call('ZREM', tenants, least[at])
      counted = tonumber(redis.call('ZINCRBY', tenants, least[at + 1], name))
    end
    if counted >= TENANT_COUNT_MAX then
      redis.call('ZUNIONSTORE', tenants, 1, tenants, 'WEIGHTS', 0.5)
    end
  end
  redis.call('EXPIRE', tenants, TENANTS_KEPT_S)
end
