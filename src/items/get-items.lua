-- KEYS: items, order (see put-items.lua). ARGV: ids. Returns the bytes of each item, or false for one that is missing
-- or has expired, and for those before the last 8 MiB. Needs `now` (clock.lua).
local found = {}
local left = 8 * 1024 * 1024
for at = #ARGV, 1, -1 do
  local expires = redis.call('ZSCORE', KEYS[2], ARGV[at])
  found[at] = left > 0 and expires and tonumber(expires) > now and redis.call('HGET', KEYS[1], ARGV[at]) or false
  if found[at] then left = left - #found[at] end
end
return found
