-- Dead letters: messages that were given out as often as their queue allows go to another queue. That may
-- be in another slot, so they leave through `outbox`, numbered, and are posted there in steps of
-- their own, which may be repeated: the other queue keeps the last number that it got from here.
--
-- A letter is its number, how often it was given out, its ttl (s), the second in which it ends, its key, the
-- name of the queue it goes to behind its length, and its record.
local LETTER = '>I8I4I4I8'

local function send(dead, rules)
  if #dead.keys == 0 then
    return
  end
  local number = next_number('o') - 1
  local letters = {}
  for i, key in ipairs(dead.keys) do
    local hold = hold_at(dead, i)
    if rules.letter_ttl > 0 then
      hold.ttl = rules.letter_ttl
      hold.second = math.ceil(now / 1000000) + hold.ttl
    end
    number = number + 1
    letters[i] = struct.pack(LETTER, number, hold.count, hold.ttl, hold.second) .. key
      .. string.char(#rules.target) .. rules.target .. dead.records[i]
  end
  remove(dead.keys)
  redis.call('RPUSH', outbox, unpack(letters))
  redis.call('HSET', queue, 'o', decimal(number))
end

-- Of the loaded messages that are to be given out, those that may be; the others are sent away.
local function worth_giving_out(loaded, rules)
  if rules.target == '' then
    return loaded
  end
  local function add(list, i)
    local place = #list.keys + 1
    list.keys[place], list.records[place], list.holds[place] = loaded.keys[i], loaded.records[i], loaded.holds[i]
    list.positions[place] = loaded.positions[i]
  end
  local function none()
    return {keys = {}, records = {}, holds = {}, positions = {}}
  end
  local worth, dead = none(), none()
  for i = 1, #loaded.keys do
    add(hold_at(loaded, i).count < rules.count_max and worth or dead, i)
  end
  send(dead, rules)
  return worth
end

-- How many letters wait in the outbox of a queue with these rules.
local function waiting_letters(rules)
  return rules.target ~= '' and redis.call('LLEN', outbox) or 0
end

