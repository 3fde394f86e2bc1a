-- Posts one message in each request, to one queue or to many queues in random order.
-- Arguments: size of the body in bytes, number of queues.
dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')
local requests = {}

function init(args)
  local bytes, queues = tonumber(args[1]), tonumber(args[2])
  headers()
  wrk.method = 'POST'
  wrk.body = '{"messages": [{"ttl": 3600, "body": "' .. string.rep('x', bytes) .. '"}]}'
  for queue = 1, queues do
    requests[queue] = wrk.format(nil, '/v2/queues/q-' .. queue - 1 .. '/messages')
  end
end

function request()
  return requests[math.random(#requests)]
end
