-- Posts progress (held becomes spent), prolongs the lease, and grows what is held: money where every spend limit has room, tokens where
-- the rates have. All amounts are totals, so that a call that comes twice or late changes nothing more.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits input output cost wantedTokens wantedCost
-- outcomes:
--   extended
--   exhausted   (the progress is posted, the lease prolonged; the money did not grow)
--   ended   (settled, lost or cancelled before)
--   unknown

local input, output, cost = amount(ARGV[6]), amount(ARGV[7]), amount(ARGV[8])
local wanted_tokens, wanted_cost = amount(ARGV[9]), amount(ARGV[10])

local reservation = load_reservation(id)
if not reservation then return { 'unknown' } end
if reservation[STATE] ~= IS_LIVE then return { 'ended' } end

local scopes = load_scopes(key)
advance(scopes[1], limits[1])
advance(scopes[2], limits[2])

local before = unposted(reservation)
local posted, grown = max(reservation[POSTED], cost), max(reservation[RESERVED], wanted_cost)
local spent = posted - reservation[POSTED]
local demand = spent + max(0, grown - posted) - before
local fits = true
if grown ~= reservation[RESERVED] then
  for s = 1, 2 do
    for b = 1, 3 do
      local same = scopes[s][BUDGETS[b]] == reservation[WINDOWS + (s - 1) * 3 + b]
      if same and not has_room(scopes[s], BUDGETS[b], most(limits[s], b), demand) then fits = false end
    end
  end
end
if fits then reservation[RESERVED] = grown end
reservation[POSTED] = posted
move(reservation, scopes, spent, unposted(reservation) - before)

-- Tokens that were really taken are charged whatever the rates say.
reservation[POSTED_INPUT] = max(reservation[POSTED_INPUT], input)
reservation[POSTED_OUTPUT] = max(reservation[POSTED_OUTPUT], output)
local accounted = reservation[ACCOUNTED]
local taken = max(accounted, sum(reservation[POSTED_INPUT], reservation[POSTED_OUTPUT]))
local wanted = max(taken, wanted_tokens)
for s = 1, 2 do
  if limits[s][2] ~= NONE and scopes[s][TOKENS] + (wanted - accounted) > limits[s][2] then wanted = taken end
end
for s = 1, 2 do use(scopes[s], limits[s], 0, wanted - accounted) end
reservation[ACCOUNTED] = wanted

reservation[DUE] = max(reservation[DUE], now + LEASE_MS)
save_scopes(key, scopes)
save_reservation(id, reservation)
return { fits and 'extended' or 'exhausted' }
