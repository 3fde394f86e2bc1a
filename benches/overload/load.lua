-- Sends one kind of request in a closed loop to four queues of a project. Prints the outcome as a
-- line of JSON, with times in milliseconds. Argument: list, post or claim.
local kind
local QUEUES = 4

function init(args)
  kind = args[1]
  wrk.headers['Client-ID'] = '3381af92-2b9e-11e3-b191-71861300734d'
  wrk.headers['X-Project-ID'] = 'overload'
  wrk.headers['Content-Type'] = 'application/json'
end

local message = '{"messages": [{"ttl": 3600, "body": "' .. string.rep('x', 1000) .. '"}]}'

function request()
  local queue = '/v2/queues/' .. kind .. '-' .. math.random(0, QUEUES - 1)
  if kind == 'list' then
    return wrk.format('GET', queue .. '/messages?limit=10')
  elseif kind == 'post' then
    return wrk.format('POST', queue .. '/messages', nil, message)
  end
  return wrk.format('POST', queue .. '/claims?limit=1', nil, '{"ttl": 300, "grace": 60}')
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "refused": %d, "broken": %d, "p50_ms": %.4f, "p99_ms": %.4f, "max_ms": %.4f}\n',
    summary.requests, summary.duration / 1e6, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end
