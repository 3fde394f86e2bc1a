-- Deletes a token, if it exists.
--
-- KEYS  1 records (hash)    2 ids (zset)    3 ids by project (zset)    4 ids by expiry (zset): see
--       shared/tokens.lua
-- ARGV  1 id
-- Returns {'deleted'}.
assert(#KEYS >= 4 and #ARGV == 1, 'token_delete: 4 keys, 1 argument')
remove_token(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1])
return {'deleted'}
