-- Adds what a node served on a day, of a key and model, to its month, which stands under its first day, and drops the day. Done again it does
-- nothing. Notes up to which day there are such months: whoever compares figures from before it does so by month.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: node day key model
-- outcomes:
--   folded
--   absent   (nothing is stored of that day, or it is the first of its month)
--   young   (its month ended less than 400 days ago by the clock of Redis)

local month = month_of(day * DAY_MS)
local first, following = floor(month_start_ms(month) / DAY_MS), floor(month_start_ms(month + 1) / DAY_MS)
if following > day_of(now) - DAYS_KEPT then return { 'young' } end
local stored = redis.call('HGET', NODES, field_of_node(node, day, key, model))
if not stored or day == first then return { 'absent' } end
add_figures(NODES, field_of_node(node, first, key, model), 1, load_figures(stored))
redis.call('HDEL', NODES, field_of_node(node, day, key, model))
redis.call('HSET', NODES, FOLDED, exact(max(following, tonumber(redis.call('HGET', NODES, FOLDED) or 0))))
return { 'folded' }
