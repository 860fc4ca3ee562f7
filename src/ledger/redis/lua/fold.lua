-- Adds the usage of a day, key and series to the first day of its month, or that of an hour to its day, and deletes it.
-- A repeated call does nothing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: day key series month into
-- `month` and `into` are the day and the series of the larger sum.
-- outcomes:
--   folded
--   absent   (nothing is stored of that day and series)

local field = usage_field(day, key, series)
local stored = redis.call('HGET', USAGE, field)
if not stored then return { 'absent' } end
count(month, key, into, 1, load_figures(stored))
redis.call('HDEL', USAGE, field)
-- A concurrent reader may see it twice or not at all; a changed count makes it read once more.
redis.call('HSET', USAGE, FOLDS, tonumber(redis.call('HGET', USAGE, FOLDS) or 0) + 1)
return { 'folded' }
