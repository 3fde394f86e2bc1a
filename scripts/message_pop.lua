-- Pop the free messages of a queue that are next, fewer than wanted where the answer would grow too large: hand them
-- out and delete them in one step. Those that were given out as often as the queue allows go to its
-- dead letters instead.
--
-- KEYS  the queue's
-- ARGV  1 how many at most
-- Returns {'again'} when it was busy settling, with nothing popped; else {'popped', how many dead letters
--       wait to be delivered, now, the messages' shards in a fair queue, key, record, hold, ...}.
assert(#KEYS == QUEUE_KEYS and #ARGV == 1, 'message_pop: the keys of the queue, 1 argument')
local limit = tonumber(ARGV[1])

if settle() then
  return {'again'}
end
local rules = policy()
local given = worth_giving_out(load_next(limit, {}), rules)
local popped = {'popped', waiting_letters(rules), decimal(now), table.concat(given.positions)}
show(popped, given)
remove(given.keys)
compact()
return popped
