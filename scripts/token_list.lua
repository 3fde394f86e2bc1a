-- Lists tokens in the order of their ids.
--
-- KEYS  1 records (hash)    2 ids (zset)    3 ids by project (zset)    4 ids by expiry (zset): see
--       shared/tokens.lua
-- ARGV  1 length and text of the project, or empty for the tokens of all projects and for those that
--       belong to no project    2 id after which the list starts, or empty    3 maximum number of
--       tokens
-- Returns {'again'} if more expired tokens must be removed first; otherwise {'tokens', now, then for
--       each token its id and its record}.
assert(#KEYS >= 4 and #ARGV == 3, 'token_list: 4 keys, 3 arguments')
local records, ids, projects, ends = unpack(KEYS)
local project, after, limit = unpack(ARGV)

if remove_expired_tokens(records, ids, projects, ends) then
  return {'again'}
end
local found
if project == '' then
  found = redis.call('ZRANGEBYLEX', ids, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
else
  local first, last = entries_of_project(project)
  first = after == '' and first or '(' .. project .. after
  found = redis.call('ZRANGEBYLEX', projects, first, last, 'LIMIT', 0, limit)
  for i, entry in ipairs(found) do
    found[i] = string.sub(entry, #project + 1)
  end
end
local reply = {'tokens', decimal(call.now)}
for i, record in ipairs(query_in_chunks('HMGET', records, found)) do
  reply[#reply + 1], reply[#reply + 2] = found[i], record
end
return reply
