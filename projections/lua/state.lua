-- Reads what the projector needs to go on with a session.
-- KEYS: m n v p h c t i x of the session. ARGV: 1 = also its nodes and prices.
-- Answer: {m flat, header or nil, node seqs, prices flat}.
local surface = ARGV[1] == '1'
return {
    redis.call('HGETALL', KEYS[1]),
    redis.call('GET', KEYS[5]),
    surface and redis.call('LRANGE', KEYS[2], 0, -1) or {},
    surface and redis.call('HGETALL', KEYS[4]) or {},
}
