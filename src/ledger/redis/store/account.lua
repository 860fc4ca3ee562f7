-- What every verb about an account begins with: an id, the gateway's clock as a witness, the key, and the limits of the
-- organisation and of the key, an amount for each row of the table of limits, as a JSON array: in one argument they
-- cost less than in six, on both sides.

local limits = { organization_limits, key_limits }
-- Windows roll only if both clocks agree: one wrong clock must not give a budget away.
local trusted = math.abs(now - witness) <= CLOCK_SKEW_MS

