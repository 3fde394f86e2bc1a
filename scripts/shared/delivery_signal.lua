-- Announces work for the deliveries of a queue (storage/deliveries.rs).
--
-- A signal goes to all processes on one channel. It is the hash tag of the queue. If the delivery
-- lease is live, a space and its holder (16 bytes) follow. A signal may be lost, so the queue is
-- also marked in the index of due queues, from which the janitor sends the signal again.

-- `call.subscription_count` is the number of subscriptions of the queue, which is field n; nil for 0.
-- A script that makes messages visible loads it.

local function signal_deliveries()
  redis.call('ZADD', call.due, 'LT', decimal(call.now), hash_tag())
  local signal = hash_tag()
  -- The functions of lease.lua would cost every post more than this code does.
  local lease = redis.call('HGET', call.queue, DELIVERY_LEASE)
  if lease then
    local _, expires_at, holder = struct.unpack(LEASE, lease)
    if call.now < expires_at and expires_at <= call.now + DELIVERY_LEASE_US then
      signal = signal .. ' ' .. holder
    end
  end
  -- The call must not fail the script if its user may not publish to this channel.
  redis.pcall('PUBLISH', SIGNAL_CHANNEL, signal)
end
