-- KEYS: items, order (see put-items.lua). ARGV: ids. Returns the bytes of each item, or false for one that is missing
-- or has expired. Needs `now` (clock.lua).
local found = {}
for at = 1, #ARGV do
  local expires = redis.call('ZSCORE', KEYS[2], ARGV[at])
  found[at] = expires and tonumber(expires) > now and redis.call('HGET', KEYS[1], ARGV[at]) or false
end
return found
