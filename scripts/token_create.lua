-- Creates a token, unless there are as many as there may be.
--
-- KEYS  1 records (hash)    2 ids (zset)    3 ids by project (zset)    4 ids by expiry (zset): see
--       shared/tokens.lua
-- ARGV  1 id    2 length and text of the project, a length of 0 for all projects
--       3 time to live (s), 0 if the token does not expire    4 rest of the record
--       5 maximum number of all tokens    6 maximum number of tokens of one project
-- Returns {'again'} if more expired tokens must be removed first; {'too_many'};
--       {'too_many_of_project'}; or {'created', now, record}.
assert(#KEYS >= 4 and #ARGV == 6, 'token_create: 4 keys, 6 arguments')
local records, ids, projects, ends = unpack(KEYS)
local id, project, ttl_s, rest, total_max, project_max = unpack(ARGV)
local ALL_PROJECTS = '\0\0'

if remove_expired_tokens(records, ids, projects, ends) then
  return {'again'}
end
local existing = redis.call('HGET', records, id)
if existing then
  return {'created', decimal(call.now), existing}
elseif redis.call('HLEN', records) >= tonumber(total_max) then
  return {'too_many'}
elseif project ~= ALL_PROJECTS and redis.call('ZLEXCOUNT', projects, entries_of_project(project)) >= tonumber(project_max) then
  return {'too_many_of_project'}
end
local ends_at = ttl_s == '0' and 0 or call.now + tonumber(ttl_s) * 1000000
local record = struct.pack('>I8I8', call.now, ends_at) .. project .. rest
redis.call('HSET', records, id, record)
redis.call('ZADD', ids, 0, id)
if project ~= ALL_PROJECTS then
  redis.call('ZADD', projects, 0, project .. id)
end
if ends_at > 0 then
  redis.call('ZADD', ends, decimal(ends_at), id)
end
return {'created', decimal(call.now), record}
