-- The head of every script about an account. Its arguments: an id, the gateway's clock as a witness, the key, and the
-- limits of the organisation and of the key. Limits are a JSON array with an amount for each row of the table of
-- limits: one argument costs less than six, for the gateway and for Redis.

local limits = { organization_limits, key_limits }
-- Windows roll only if both clocks agree: one wrong clock must not give a budget away.
local trusted = math.abs(now - witness) <= CLOCK_SKEW_MS

