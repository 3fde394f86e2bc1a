-- Tell what is noted of the ends of a queue's messages, some chunks at a time. Changes nothing.
--
-- KEYS  the queue's
-- ARGV  1 how many chunks are passed over    2 how many are told at most
-- Returns {'ends', second, keys of messages in one piece, second, keys, ...}; nothing behind the last chunk.
assert(#KEYS == QUEUE_KEYS and #ARGV == 2, 'queue_check_ends: the keys of the queue, 2 arguments')
local from, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local told = {'ends'}
local chunks = redis.call('ZRANGE', ends, from, from + limit - 1, 'WITHSCORES')
for i = 1, #chunks, 2 do
  told[#told + 1], told[#told + 2] = tonumber(chunks[i + 1]), string.sub(chunks[i], CHUNK_HEAD_BYTES + 1)
end
return told
