-- Lists the last attempts of a subscription, in no particular order.
--
-- ARGV  1 id
-- Returns {'none'} if the subscription does not exist; otherwise {'attempts', record of each}.
assert(#ARGV == 1, 'subscription_attempts: 1 argument')
local id = ARGV[1]

if not has_subscription(id) then
  return {'none'}
end
local fields = {}
for place = 0, ATTEMPTS_KEPT - 1 do
  fields[#fields + 1] = 'a' .. id .. string.char(place)
end
local reply = {'attempts'}
for _, attempt in ipairs(redis.call('HMGET', call.deliveries, unpack(fields))) do
  if attempt then
    reply[#reply + 1] = attempt
  end
end
return reply
