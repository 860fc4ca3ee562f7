-- Stores items of one owner and makes room for them: expired items go first, then the oldest. An item larger than the
-- owner's maximum is left out.
--
-- KEYS: items (hash of id → bytes; the field '' is what all of them take), order (sorted set of ids by expiry in ms)
-- ARGV: ttl in ms, maximum bytes of this owner, then id and bytes of each item. Needs `now` (clock.lua).
local items, order = KEYS[1], KEYS[2]
local ttl, most = tonumber(ARGV[1]), tonumber(ARGV[2])
-- What an item takes besides its bytes and its id: two entries of the hash and the sorted set.
local ENTRY_BYTES = 256
-- How many expired items each new one removes: more than one, so that they become fewer; few, so that no call blocks
-- Redis for long.
local EXPIRED_MAX = 16

local held = tonumber(redis.call('HGET', items, ''))
-- Without the hash, because it is new or Redis evicted it, ids in the sorted set name nothing.
if not held then
  redis.call('DEL', items, order)
  held = 0
end

local function remove(id)
  held = held - redis.call('HSTRLEN', items, id) - #id - ENTRY_BYTES
  redis.call('HDEL', items, id)
  redis.call('ZREM', order, id)
end

for at = 3, #ARGV, 2 do
  local id, bytes = ARGV[at], ARGV[at + 1]
  local size = #bytes + #id + ENTRY_BYTES
  if size <= most then
    if redis.call('ZSCORE', order, id) then remove(id) end
    local expired = redis.call('ZRANGEBYSCORE', order, '-inf', now, 'LIMIT', 0, EXPIRED_MAX)
    for _, old in ipairs(expired) do remove(old) end
    while held + size > most do
      local oldest = redis.call('ZRANGEBYSCORE', order, '-inf', '+inf', 'LIMIT', 0, 1)[1]
      -- Redis evicted the sorted set: without it the items in the hash would never be removed.
      if not oldest then
        redis.call('DEL', items, order)
        held = 0
      else
        remove(oldest)
      end
    end
    redis.call('HSET', items, id, bytes)
    redis.call('ZADD', order, now + ttl, id)
    held = held + size
  end
end
redis.call('HSET', items, '', held)
redis.call('PEXPIRE', items, ttl)
redis.call('PEXPIRE', order, ttl)
