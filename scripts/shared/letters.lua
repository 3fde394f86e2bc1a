-- Dead letters: messages that were given out as often as their queue allows go to another queue. That may
-- be in another slot, so they leave through `outbox`, numbered, and are posted there in steps of
-- their own, which may be repeated: the other queue keeps the last number that it got from here.
--
-- A letter is its number, how often it was given out, its ttl (s), the second in which it ends, its key, the
-- name of the queue it goes to behind its length, and its record.
local LETTER = '>I8I4I4I8'

local function send(keys, rules)
  if #keys == 0 then
    return
  end
  local number = next_number('o') - 1
  local letters = {}
  for i, key in ipairs(keys) do
    local hold = hold_or_new(key)
    if rules.letter_ttl > 0 then
      hold.ttl = rules.letter_ttl
      hold.second = math.ceil(now / 1000000) + hold.ttl
    end
    number = number + 1
    letters[i] = struct.pack(LETTER, number, hold.count, hold.ttl, hold.second) .. key
      .. string.char(#rules.target) .. rules.target .. redis.call('HGET', messages, key)
  end
  remove(keys)
  redis.call('RPUSH', outbox, unpack(letters))
  redis.call('HSET', queue, 'o', decimal(number))
end

-- Of the messages that are to be given out, those that may be; the others are sent away.
local function worth_giving_out(keys, rules)
  if rules.target == '' then
    return keys
  end
  local worth, dead = {}, {}
  for _, key in ipairs(keys) do
    local hold = hold_of(key)
    local list = (hold and hold.count or 0) < rules.count_max and worth or dead
    list[#list + 1] = key
  end
  send(dead, rules)
  return worth
end

-- Counts that messages, which are held, were given out.
local function count_giving_out(keys, rules)
  if rules.target ~= '' then
    for _, key in ipairs(keys) do
      local hold = hold_of(key)
      hold.count = hold.count + 1
      keep_hold(key, hold)
    end
  end
end

-- How many letters wait in the outbox of a queue with these rules.
local function waiting_letters(rules)
  return rules.target ~= '' and redis.call('LLEN', outbox) or 0
end

