-- Tokens of the service. They do not belong to a queue; all their keys are in one slot:
--   `records` (hash): by the id, the record that src/storage/token_record.rs describes: time of
--   creation (µs), time of expiry (µs) or 0, length and text of the project, and a part that scripts
--   do not read;
--   `ids` (zset): the ids in byte order, for lists of all tokens;
--   `projects` (zset): for each token of a project the length and text of the project and the id;
--   `ends` (zset): the ids by the time (µs) of the expiry, if there is one.
-- A token that has expired does not exist for any script. Scripts that create and list tokens remove
-- such tokens first, some hundreds at a time.
local TOKEN_HEAD = '>I8I8I2'
local TOKEN_HEAD_BYTES = 18
local TOKEN_PROJECT_AT = 17
local EXPIRED_TOKENS_MAX = 500

-- Returns the length and text of the project with which the entries of a project begin, and the time
-- (µs) of the expiry.
local function project_and_end(record)
  local _, ends_at, length = struct.unpack(TOKEN_HEAD, record)
  return string.sub(record, TOKEN_PROJECT_AT, TOKEN_HEAD_BYTES + length), ends_at
end

-- Returns the range of the entries of a project.
local function entries_of_project(project)
  return '[' .. project, '[' .. project .. string.rep('\255', ID_BYTES)
end

local function remove_token(records, ids, projects, ends, id)
  local record = redis.call('HGET', records, id)
  if record then
    local project = project_and_end(record)
    redis.call('HDEL', records, id)
    redis.call('ZREM', ids, id)
    redis.call('ZREM', projects, project .. id)
    redis.call('ZREM', ends, id)
  end
end

-- Removes tokens that have expired. Returns whether there may be more of them.
local function remove_expired_tokens(records, ids, projects, ends)
  local expired = redis.call('ZRANGEBYSCORE', ends, '-inf', decimal(call.now), 'LIMIT', 0, EXPIRED_TOKENS_MAX)
  for _, id in ipairs(expired) do
    remove_token(records, ids, projects, ends, id)
  end
  return #expired == EXPIRED_TOKENS_MAX
end
