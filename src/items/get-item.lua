-- KEYS: items, order (see put-items.lua). ARGV: id. Returns the bytes of the item, or false if it is missing or has
-- expired. Needs `now` (clock.lua).
local expires = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not expires or tonumber(expires) <= now then return false end
return redis.call('HGET', KEYS[1], ARGV[1])
