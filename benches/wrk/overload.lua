-- Sends one kind of request to four queues in random order.
-- Argument: list, post or claim.
dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')
local kind
local QUEUES = 4

function init(args)
  kind = args[1]
  headers()
  wrk.headers['Client-ID'] = '3381af92-2b9e-11e3-b191-71861300734d'
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
