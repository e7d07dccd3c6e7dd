-- Applies one append to a session, or says why not: older = ignored, next = applied, higher = gap,
-- lost = a key of the session is missing or cut, so that the session must be rebuilt.
-- Everything is decided before the first write, because a script is not undone.
-- KEYS: m n v p h c t i x of the session.
-- ARGV: first_seq, next_seq, offset, index entry, channel, transcript cap, then operations:
--       name, number of arguments, arguments...
-- Answer: {status, watermark}.
local state, nodes, messages, prices, header, context, transcript, inbox, index = unpack(KEYS)
local first, following, offset = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local known = redis.call('HMGET', state, 'watermark', 'offset', 'nodes', 'messages', 'transcript', 'inbox')
local watermark = tonumber(known[1] or '-1')
if first > watermark + 1 then
    return {'gap', watermark}
end
local empty = first == following
if first <= watermark or (empty and offset <= tonumber(known[2] or '-1')) then
    return {'older', watermark}
end
local function size(place) return tonumber(known[place] or '0') end
if redis.call('LLEN', nodes) ~= size(3) or redis.call('HLEN', messages) ~= size(4)
    or redis.call('HLEN', prices) ~= size(3) or redis.call('LLEN', transcript) ~= size(5)
    or redis.call('HLEN', inbox) ~= size(6) then
    return {'lost', watermark}
end

-- unpack() of a long table overflows Lua's C stack, so long lists go in slices of an even size.
local SLICE = 1000
local function sliced(command, key)
    return function(from, to)
        for low = from, to, SLICE do
            redis.call(command, key, unpack(ARGV, low, math.min(low + SLICE - 1, to)))
        end
    end
end
local function whole(key)
    return function(from) redis.call('SET', key, ARGV[from]) end
end

local push_nodes, drop_messages, drop_prices =
    sliced('RPUSH', nodes), sliced('HDEL', messages), sliced('HDEL', prices)
local operations = {
    set = sliced('HSET', state),
    push = push_nodes,
    nodes = function(from, to) redis.call('DEL', nodes); push_nodes(from, to) end,
    drop = function(from, to) drop_messages(from, to); drop_prices(from, to) end,
    message = sliced('HSET', messages),
    price = sliced('HSET', prices),
    transcript = sliced('RPUSH', transcript),
    post = sliced('HSET', inbox),
    claim = sliced('HDEL', inbox),
    header = whole(header),
    context = whole(context),
}

local at = 7
local used = {}
while at <= #ARGV do
    local name, count = ARGV[at], tonumber(ARGV[at + 1])
    operations[name](at + 2, at + 1 + count)
    used[name] = true
    at = at + 2 + count
end

-- The sizes beside the watermark: by them a lost or cut key is noticed.
if used.push or used.nodes then
    redis.call('HSET', state, 'nodes', redis.call('LLEN', nodes), 'messages', redis.call('HLEN', messages))
end
if used.transcript then
    redis.call('LTRIM', transcript, -tonumber(ARGV[6]), -1)
    redis.call('HSET', state, 'transcript', redis.call('LLEN', transcript))
end
if used.post or used.claim then
    redis.call('HSET', state, 'inbox', redis.call('HLEN', inbox))
end

redis.call('HSET', state, 'watermark', following - 1, 'offset', offset)
redis.call('APPEND', index, ARGV[4])
if not empty then
    redis.call('PUBLISH', ARGV[5], following - 1)
end
return {'applied', following - 1}
