-- Claims ten messages and deletes them, in turn: two requests in each cycle. Arguments: the queue,
-- the number of connections. A claim of less than ten messages counts as a failure.
dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')
local report = done
local threads = {}
local deletions = {}
local claim, path
asked, full = 0, 0

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  headers()
  path = '/v2/queues/' .. args[1]
  connections = tonumber(args[2])
  claim = wrk.format('POST', path .. '/claims?limit=10', nil, '{"ttl": 300, "grace": 60}')
end

function request()
  local deletion = table.remove(deletions)
  if not deletion then
    asked = asked + 1
  end
  return deletion or claim
end

function response(status, _, body)
  if status ~= 201 then
    return
  end
  local ids = {}
  for id in string.gmatch(body, '"id": *"([%w-]+)"') do
    ids[#ids + 1] = id
  end
  if #ids == 10 then
    full = full + 1
  end
  deletions[#deletions + 1] = wrk.format('DELETE', path .. '/messages?ids=' .. table.concat(ids, ','), nil, '')
end

function done(summary, latency)
  for _, thread in ipairs(threads) do
    -- The last claim of each connection may have had no answer yet.
    local short = thread:get('asked') - thread:get('full') - thread:get('connections')
    summary.errors.status = summary.errors.status + math.max(short, 0)
  end
  report(summary, latency)
end
