-- Notes which compaction was asked for last because a session was full, unless it is unknown by
-- now: a state that holds nothing else would be no session.
-- KEYS: m. ARGV: the attempt. Answer: 1 when noted.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
redis.call('HSET', KEYS[1], 'asked', ARGV[1])
return 1
