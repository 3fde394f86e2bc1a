-- Assigns shards to new messages of a fair queue, and counts messages by tenant.
local TENANTS_MAX = 32
local TENANT_COUNT_MAX = 10000
local TENANTS_KEPT_S = 3600

local function shard_length(shard, delays)
  local length = redis.call('ZCOUNT', call.shards, AVAILABLE .. shard, AVAILABLE .. shard)
  if delays then
    length = length + redis.call('ZCOUNT', call.shards, DELAYED .. shard, DELAYED .. shard)
  end
  return length
end

-- Returns the shard for a tenant's next message: the first candidate that has no available or
-- delayed message, otherwise the one that has the fewest. `delays` says whether any message was
-- delayed before this post. `call.shard_lengths` has the number of available and delayed messages of
-- each shard that the call has counted.
local function assign_shard(candidates, delays)
  local lengths = call.shard_lengths or {}
  call.shard_lengths = lengths
  local shortest, least
  for _, shard in ipairs(candidates) do
    lengths[shard] = lengths[shard] or shard_length(shard, delays)
    local length = lengths[shard]
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

-- Counts messages by the name of their tenant, with a limited number of counters. If there are too
-- many, the tenant with the lowest count is removed and the new one takes over its count (the
-- Space-Saving algorithm). Counts are halved as they grow, so that old posts count little.
local function count_tenants(posted)
  for name, count in pairs(posted) do
    local counted = tonumber(redis.call('ZINCRBY', call.tenants, count, name))
    if counted == count and redis.call('ZCARD', call.tenants) > TENANTS_MAX then
      local least = redis.call('ZRANGE', call.tenants, 0, 1, 'WITHSCORES')
      local at = least[1] == name and 3 or 1
      redis.call('ZREM', call.tenants, least[at])
      counted = tonumber(redis.call('ZINCRBY', call.tenants, least[at + 1], name))
    end
    if counted >= TENANT_COUNT_MAX then
      redis.call('ZUNIONSTORE', call.tenants, 1, call.tenants, 'WEIGHTS', 0.5)
    end
  end
  redis.call('EXPIRE', call.tenants, TENANTS_KEPT_S)
end
