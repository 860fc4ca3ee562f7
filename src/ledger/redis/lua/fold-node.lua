-- Adds a day of what a node served for a key and series to the first day of its month, and deletes the day. A repeated
-- call does nothing. Stores up to which day months are folded: figures from before it are compared by month.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: node day key series
-- outcomes:
--   folded
--   absent   (nothing is stored of that day, or it is the first of its month)
--   young   (its month ended less than 400 days ago by the clock of Redis)

local month = month_of(day * DAY_MS)
local first, following = floor(month_start_ms(month) / DAY_MS), floor(month_start_ms(month + 1) / DAY_MS)
if following > day_of(now) - DAYS_KEPT then return { 'young' } end
local stored = redis.call('HGET', NODES, field_of_node(node, day, key, series))
if not stored or day == first then return { 'absent' } end
add_figures(NODES, field_of_node(node, first, key, series), 1, load_figures(stored))
redis.call('HDEL', NODES, field_of_node(node, day, key, series))
redis.call('HSET', NODES, FOLDED, exact(max(following, tonumber(redis.call('HGET', NODES, FOLDED) or 0))))
return { 'folded' }
