-- Reads one consistent cut of a session, at a cost that grows with its Surface only.
-- KEYS: m n v p h c t i x of the session.
-- Answer: {m flat, node seqs, v flat, p flat, header or nil, context or nil}; m is empty when
-- the session is unknown.
return {
    redis.call('HGETALL', KEYS[1]),
    redis.call('LRANGE', KEYS[2], 0, -1),
    redis.call('HGETALL', KEYS[3]),
    redis.call('HGETALL', KEYS[4]),
    redis.call('GET', KEYS[5]),
    redis.call('GET', KEYS[6]),
}
