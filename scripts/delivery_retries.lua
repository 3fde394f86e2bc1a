-- Lists the next retries of a subscription, in the order in which they are due. There are fewer if
-- they would be too large for one reply.
--
-- ARGV  1 id of the subscription    2 entry in `retry_times` after which the list starts, or empty
--       3 maximum number of retries
-- Returns {now, then the name of each retry}. The list is empty if the subscription does not exist.
assert(#ARGV == 3, 'delivery_retries: 3 arguments')
local id, after, limit = unpack(ARGV)

local reply, bytes = {decimal(call.now)}, 0
if not has_subscription(id) then
  return reply
end
local first, last = retry_range(id)
if after ~= '' then
  first = '(' .. after
end
for _, entry in ipairs(redis.call('ZRANGEBYLEX', call.retry_times, first, last, 'LIMIT', 0, limit)) do
  local name = retry_name(entry)
  bytes = bytes + redis.call('HSTRLEN', call.retries, name)
  if bytes > REPLY_BYTES_MAX and #reply > 1 then
    break
  end
  reply[#reply + 1] = name
end
return reply
