-- Runs a command that writes a key, if the store has the marks of this run of a migration.
--
-- KEYS  1 the key    2 sukkal:layout    3 sukkal:migration
-- ARGV  1 the layout during the migration    2 the id of the migration
--       3 the command    4… its arguments after the key
-- Returns 'done'; or 'lost' if a mark is missing. Only the command that writes sukkal:migration does
-- not need it.
assert(#KEYS == 3 and #ARGV >= 3, 'migration_write: 3 keys, 3 arguments and more')
local key, layout, migration = KEYS[1], KEYS[2], KEYS[3]

if redis.call('GET', layout) ~= ARGV[1] or key ~= migration and redis.call('GET', migration) ~= ARGV[2] then
  return 'lost'
end
redis.call(ARGV[3], key, unpack(ARGV, 4))
return 'done'
