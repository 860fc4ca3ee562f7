-- KEYS: pieces, order (see shelf-put.lua). ARGV: id. Answers the piece, or nothing if there is none or it has expired. Needs `now`.
local expires = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not expires or tonumber(expires) <= now then return false end
return redis.call('HGET', KEYS[1], ARGV[1])
