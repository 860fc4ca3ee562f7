-- The arguments that every verb about an account begins with: an id, the gateway's clock as a witness, the key, and the limits of the
-- organisation and of the key.

local id, witness, key = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local limits = { {}, {} }
for i = 1, 6 do
  limits[1][i] = tonumber(ARGV[3 + i])
  limits[2][i] = tonumber(ARGV[9 + i])
end
-- Windows roll only where both clocks agree: one wrong clock must not give a budget away.
local trusted = math.abs(now - witness) <= CLOCK_SKEW_MS
