-- Compares a session's keys with the sizes and the watermark that they must have.
-- KEYS: m n v p h c t i x of the session. ARGV: the least watermark that was seen before.
-- Answer: {reason, activity}; the reason is '' when all is there. A lost index `x` is no loss:
-- the log is scanned instead.
local state = redis.call('HMGET', KEYS[1], 'watermark', 'nodes', 'messages', 'transcript', 'inbox',
    'header_seq', 'context_seq', 'activity')
local function size(place) return tonumber(state[place] or '0') end

local function reason()
    if not state[1] then return 'state missing' end
    if tonumber(state[1]) < tonumber(ARGV[1]) then return 'watermark went back' end
    if redis.call('LLEN', KEYS[2]) ~= size(2) then return 'nodes missing' end
    if redis.call('HLEN', KEYS[3]) ~= size(3) then return 'messages missing' end
    if redis.call('HLEN', KEYS[4]) ~= size(2) then return 'prices missing' end
    if redis.call('LLEN', KEYS[7]) ~= size(4) then return 'transcript missing' end
    if redis.call('HLEN', KEYS[8]) ~= size(5) then return 'inbox missing' end
    if state[6] and redis.call('EXISTS', KEYS[5]) == 0 then return 'header missing' end
    if state[7] and redis.call('EXISTS', KEYS[6]) == 0 then return 'context missing' end
    return ''
end

return {reason(), state[8] or ''}
