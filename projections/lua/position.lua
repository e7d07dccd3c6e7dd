-- Moves the applied offset of a partition, from the offset where the caller's work began only:
-- a projector that lost the partition cannot push it.
-- KEYS: position. ARGV: from, to. Answer: the offset that holds afterwards, or nil when missing.
local offset = redis.call('HGET', KEYS[1], 'offset')
if offset == ARGV[1] and ARGV[2] ~= ARGV[1] then
    redis.call('HSET', KEYS[1], 'offset', ARGV[2])
    return ARGV[2]
end
return offset
