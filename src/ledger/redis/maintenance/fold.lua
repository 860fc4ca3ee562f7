-- Adds a day's usage of a key and model to its month, which stands under its first day, and drops the day. Done again it does nothing.
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
-- Whoever reads meanwhile may see a day twice, or not at all: it reads again then.
redis.call('HSET', USAGE, FOLDS, tonumber(redis.call('HGET', USAGE, FOLDS) or 0) + 1)
return { 'folded' }
