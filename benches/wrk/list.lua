-- Lists ten messages after a marker, as a client that has not posted them.
-- Arguments: a file with a marker in each line.
dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')
local requests = {}

function init(args)
  headers()
  wrk.headers['Client-ID'] = '3381af92-2b9e-11e3-b191-71861300734d'
  for marker in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format('GET', '/v2/queues/q-0/messages?limit=10&marker=' .. marker)
  end
end

function request()
  return requests[math.random(#requests)]
end
