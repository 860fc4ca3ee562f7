-- The day and the month that an organisation's budgets are in. Changes nothing.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments:
-- outcomes:
--   windows day month

local scope = load_scope(redis.call('HGET', SCOPES, ''))
return { 'windows', exact(scope[DAY]), exact(scope[MONTH]) }
