-- Publishes one message in each request through the HTTP API of RabbitMQ.
-- Arguments: size of the body in bytes.
dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

function init(args)
  wrk.method = 'POST'
  wrk.path = '/api/exchanges/%2F/amq.default/publish'
  wrk.headers['Authorization'] = 'Basic Z3Vlc3Q6Z3Vlc3Q='
  wrk.headers['Content-Type'] = 'application/json'
  wrk.body = '{"properties": {}, "routing_key": "q-0", "payload_encoding": "string", "payload": "'
    .. string.rep('x', tonumber(args[1])) .. '"}'
end
