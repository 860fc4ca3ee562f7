-- Holds one request, its tokens, a place among the concurrent ones and its cost, or says which limit refuses it. Every
-- check comes before the first write; what is refused consumes nothing.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits model input output cost floorCost epoch
-- outcomes:
--   granted admitted, rates   (the same for a repeated call)
--   refused scope limit wait held all_held, rates   (scope and limit by name; wait -1: waiting never helps; all_held is of all limits
--     that refuse)
--   emptied   (Redis has lost what it had in the epoch that the caller knows; nothing is done)
--   ended   (settled, lost or cancelled before)
-- `held` is 1 if only what running requests hold stands in the way. `rates` are two numbers for each rate of the
-- organisation, then of the key: what remains, and the milliseconds until it is full; -1 -1 without a limit.

local current = this_epoch(epoch)
if epoch ~= 0 and current ~= epoch then return { 'emptied' } end

reap()

local reservation = load_reservation(id)
if reservation and reservation[STATE] ~= IS_LIVE then return { 'ended' } end

local scopes = load_scopes(key)
advance(scopes, limits)

local function with_rates(reply)
  for s = 1, 2 do
    for r = 1, RATES do
      local limit, used = limits[s][RATE[r]], scopes[s][USED[r]]
      reply[#reply + 1] = limit == NONE and -1 or exact(max(0, floor(limit - used)))
      reply[#reply + 1] = limit == NONE and -1 or exact(limit > 0 and min(AMOUNT_MAX, ceil(used * MINUTE_MS / limit)) or 0)
    end
  end
  return reply
end

if reservation then return with_rates({ 'granted', reservation[ADMITTED] }) end

-- Of all limits that refuse, the one that will do so longest; the first of equals.
local longest, refused_scope, refused_limit, refused_held = 0, nil, nil, false
local all_held = true
local function refuse(s, limit, wait, held)
  all_held = all_held and held
  if wait <= longest then return end
  longest, refused_scope, refused_limit, refused_held = wait, s, limit, held
end

local function check_rate(s, r)
  local limit, used, unit = limits[s][RATE[r]], scopes[s][USED[r]], RATE_UNIT[r]
  local wanted = demand[unit]
  if limit == NONE or used + wanted <= limit then return end
  -- Tokens that were reserved and not taken are given back; a request is a request.
  local held = unit ~= REQUESTS and wanted <= limit and scopes[s][LIVE] > 0
  refuse(s, RATE[r], wanted > limit and math.huge or (used + wanted - limit) * MINUTE_MS / limit, held)
end

local function check_places(s, place)
  local places = limits[s][place]
  if places == NONE or scopes[s][LIVE] + 1 <= places then return end
  refuse(s, place, places < 1 and math.huge or CONCURRENT_WAIT_MS, places >= 1)
end

local function check_budget(s, b)
  local scope, limit, wanted = scopes[s], budget_limit(limits[s], b), demand[BUDGET_UNIT[b]]
  -- What takes nothing passes a budget that is overdrawn as it does one that is used up to the last micro-dollar.
  if wanted == 0 or has_room(scope, b, limit, wanted) then return end
  local spent, held = scope[SPENT[b]], scope[HELD[b]]
  if wanted > limit then
    refuse(s, BUDGET[b], math.huge, false)
  elseif wanted > limit - spent then
    -- A window that is over by a clock that is not trusted ends soon.
    refuse(s, BUDGET[b], max(1, window_end_ms(PERIOD[b], scope[WINDOW[b]]) - now), false)
  else
    -- The larger the share of what is held that must come free, the longer the wait.
    refuse(s, BUDGET[b], max(HELD_WAIT_MS_MIN, HELD_WAIT_MS_MAX * (wanted - (limit - spent - held)) / held), true)
  end
end

for s = 1, 2 do
  for r = 1, RATES do check_rate(s, r) end
  for p = 1, #PLACES do check_places(s, PLACES[p]) end
  for b = 1, BUDGETS do check_budget(s, b) end
end

if refused_scope then
  local wait = longest == math.huge and -1 or exact(min(AMOUNT_MAX, ceil(longest)))
  return with_rates({ 'refused', SCOPE_NAMES[refused_scope], LIMITS[refused_limit], wait, refused_held and 1 or 0, all_held and 1 or 0 })
end

-- Everything is checked; from here on everything is written.
reservation = empty_reservation()
reservation[STATE], reservation[DUE], reservation[ADMITTED] = IS_LIVE, now + LEASE_MS, now
reservation[KEY], reservation[MODEL], reservation[INPUT] = key, model, input
reservation[ACCOUNTED], reservation[RESERVED], reservation[FLOOR] = demand[TOKENS], cost, floor_cost
for unit = FIRST_FURTHER_UNIT, UNITS do reservation[FURTHER_RESERVED[unit]] = demand[unit] end
for s = 1, 2 do
  local scope, own, admission, idled = scopes[s], limits[s], ADMISSION[s], IDLED_BEFORE[s]
  scope[LIVE] = scope[LIVE] + 1
  for b = 1, BUDGETS do
    local wanted, unit = demand[BUDGET_UNIT[b]], BUDGET_UNIT[b]
    local spent = posted(reservation, unit)
    reservation[admission[b]] = scope[WINDOW[b]]
    scope[SPENT[b]] = sum(scope[SPENT[b]], spent)
    scope[HELD[b]] = scope[HELD[b]] + wanted - spent
  end
  for r = 1, RATES do
    local used = USED[r]
    reservation[idled[r]] = -1
    if own[RATE[r]] ~= NONE then
      reservation[idled[r]] = scope[IDLED[r]]
      scope[used] = scope[used] + demand[RATE_UNIT[r]]
    end
  end
end
save_scopes(key, scopes)
save_reservation(id, reservation)
return with_rates({ 'granted', now })
