-- KEYS: pieces (hash of id → bytes; the field '' is the sum of their bytes), order (sorted set of ids by when they expire, in ms)
-- ARGV: ttl in ms, most bytes of this owner, then id and bytes of each piece. Needs `now`.
local pieces, order = KEYS[1], KEYS[2]
local ttl, most = tonumber(ARGV[1]), tonumber(ARGV[2])
-- What a piece takes besides its bytes and its id: two entries of the hash and the sorted set.
local ENTRY_BYTES = 256
-- So many expired ones go with each piece that comes: more than one, so they become fewer, and few enough that Redis is not held up.
local EXPIRED_MAX = 16

local held = tonumber(redis.call('HGET', pieces, '') or '-1')
-- There are none; what an eviction left of the index is of no use.
if held < 0 then
  redis.call('DEL', pieces, order)
  held = 0
end

local function forget(id)
  held = held - redis.call('HSTRLEN', pieces, id) - #id - ENTRY_BYTES
  redis.call('HDEL', pieces, id)
  redis.call('ZREM', order, id)
end

for at = 3, #ARGV, 2 do
  local id, piece = ARGV[at], ARGV[at + 1]
  local size = #piece + #id + ENTRY_BYTES
  if size <= most then
    if redis.call('ZSCORE', order, id) then forget(id) end
    local expired = redis.call('ZRANGEBYSCORE', order, '-inf', now, 'LIMIT', 0, EXPIRED_MAX)
    for _, old in ipairs(expired) do forget(old) end
    while held + size > most do
      local oldest = redis.call('ZRANGEBYSCORE', order, '-inf', '+inf', 'LIMIT', 0, 1)[1]
      -- The index is gone, evicted or deleted: the pieces would never be forgotten.
      if not oldest then
        redis.call('DEL', pieces, order)
        held = 0
      else
        forget(oldest)
      end
    end
    redis.call('HSET', pieces, id, piece)
    redis.call('ZADD', order, now + ttl, id)
    held = held + size
  end
end
redis.call('HSET', pieces, '', held)
redis.call('PEXPIRE', pieces, ttl)
redis.call('PEXPIRE', order, ttl)
return 'kept'
