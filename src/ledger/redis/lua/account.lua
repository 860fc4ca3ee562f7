-- The head of every script about one account. Its arguments: an id, the gateway's clock as a witness, the key, the
-- limits of the organisation and of the key, and its counters as `add_counters` takes them, or ''. Limits are a JSON
-- array with an amount for each row of the table of limits: one argument costs less than six, for the gateway and for
-- Redis.

local limits = { organization_limits, key_limits }
local given = budgets ~= '' and cjson.decode(budgets)
