-- Returns the current windows of an organisation's budgets.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments:
-- outcomes:
--   windows, and as text the window of each budget

local scope = load_scope(redis.call('HGET', SCOPES, ''))
local reply = { 'windows' }
for b = 1, OWN_BUDGETS do reply[#reply + 1] = exact(scope[WINDOW[b]]) end
return reply
