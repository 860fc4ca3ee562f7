-- Adds a day of usage of a key and model to the first day of its month, and deletes the day. A repeated call does
-- nothing.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: day month key model
-- outcomes:
--   folded
--   absent   (nothing is stored of that day)

local field = string.format('%.0f', day) .. '\0' .. key .. '\0' .. model
local stored = redis.call('HGET', USAGE, field)
if not stored then return { 'absent' } end
count(month, key, model, 1, load_figures(stored))
redis.call('HDEL', USAGE, field)
-- A concurrent reader may see a day twice or not at all; a changed count makes it read once more.
redis.call('HSET', USAGE, FOLDS, tonumber(redis.call('HGET', USAGE, FOLDS) or 0) + 1)
return { 'folded' }
