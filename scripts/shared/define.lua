-- Defines a function of the library (crates/storage/src/redis/script.rs).
local function define(name, flags, run)
  register({function_name = name .. SUFFIX, flags = flags, callback = run})
end

-- Defines a function on a queue, and another one that fails if the queue does not exist.
local function define_on_queue(name, flags, run)
  define(name, flags, run)
  define(name .. '_existing', flags, function(keys, arguments)
    if redis.call('HEXISTS', keys[1], 'v') == 0 then
      return redis.error_reply('NOQUEUE the queue is not in this store')
    end
    return run(keys, arguments)
  end)
end
