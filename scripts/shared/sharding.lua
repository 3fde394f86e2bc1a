-- Assigns shards to new messages of a fair queue, and counts its tenants.
local TENANTS_MAX = 32
local TENANT_COUNT_MAX = 10000
local TENANTS_KEPT_S = 3600

-- How many messages shards have to give, now or later, as far as it was counted.
local lengths = {}

local function length_of(shard, delays)
  local length = redis.call('ZCOUNT', shards, FREE .. shard, FREE .. shard)
  if delays then
    length = length + redis.call('ZCOUNT', shards, DELAYED .. shard, DELAYED .. shard)
  end
  lengths[shard] = length
  return length
end

-- The shard of a tenant for its next message: the first of its shards that has nothing to give, otherwise the one that has the
-- fewest. `delays` says whether anything was delayed before this post.
local function assign_shard(lot, delays)
  local shortest, least
  for _, shard in ipairs(lot) do
    local length = lengths[shard] or length_of(shard, delays)
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

-- Counts messages of tenants, by name, with a limited number of counters: the tenant that has posted least makes room for a new
-- one, which takes its count over (the Space-Saving algorithm). Counts are halved as they grow, so that old posts count little.
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
