-- Returns a token.
--
-- KEYS  1 records (hash): see shared/tokens.lua
-- ARGV  1 id
-- Returns {'none'} if there is no such token; or {'token', now, record}.
assert(#KEYS >= 1 and #ARGV == 1, 'token_get: 1 key, 1 argument')
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record then
  return {'none'}
end
return {'token', decimal(call.now), record}
