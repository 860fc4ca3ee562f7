-- The arguments that every verb about an account begins with: an id, the gateway's clock as a witness, the key, and the limits of the
-- organisation and of the key, six numbers each as a JSON array: in one argument they cost less than in six, on both sides.

local id, witness, key = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local limits = { cjson.decode(ARGV[4]), cjson.decode(ARGV[5]) }
-- Windows roll only where both clocks agree: one wrong clock must not give a budget away.
local trusted = math.abs(now - witness) <= CLOCK_SKEW_MS
