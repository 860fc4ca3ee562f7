-- Posts progress (held becomes spent), extends the lease, and holds more: money if every spend limit has room, tokens
-- if the rates have room. All amounts are totals, so that a repeated or late call changes nothing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: id witness key organizationLimits keyLimits budgets input output cost wantedTokens wantedCost
-- outcomes:
--   extended
--   exhausted   (the progress is posted, the lease extended; no more is held)
--   ended   (settled, lost or cancelled before)
--   unknown

local reservation = load_reservation(id)
if not reservation then return { 'unknown' } end
if reservation[STATE] ~= IS_LIVE then return { 'ended' } end

local scopes = load_scopes(key)
advance(scopes, limits)
local hold = reservation[HAS_COUNTERS] and reservation[HAS_COUNTERS] > 0 and load_hold(id)
if hold and hold[1][STATE] ~= IS_LIVE then hold = nil end
local owners = hold and hold[2]
if owners then
  local account = { scopes = scopes, limits = limits }
  if given then add_counters(account, given) end
  local own, own_limits = scopes_of(owners, given and given[1]), limits_of(owners, account)
  advance_counters(own, own_limits, account)
  scopes = { scopes[1], scopes[2], unpack(own, 3) }
  scopes.key, scopes.names = key, own.names
  limits = { limits[1], limits[2], unpack(own_limits, 3) }
end

local function budgets_allow(unit, more)
  for s = 1, #scopes do
    for b = 1, s > 2 and BUDGETS or OWN_BUDGETS do
      local admitted = s > 2 and owners[s - 2][2][b] or s <= 2 and reservation[ADMISSION[s][b]]
      if BUDGET_UNIT[b] == unit and scopes[s][WINDOW[b]] == admitted then
        if not has_room(scopes[s], b, budget_limit(limits[s], b), more) then return false end
      end
    end
  end
  return true
end

local function rates_allow(unit, more)
  for r = 1, RATES do
    if RATE_UNIT[r] == unit then
      for s = 1, #scopes do
        local limit = limits[s][RATE[r]]
        if limit ~= NONE and scopes[s][USED[r]] + more > limit then return false end
      end
    end
  end
  return true
end

-- Moves what was posted since `before` from held to spent, and raises what is held of a unit to `wanted` if all of its
-- limits have room. `taken` is charged even if they have none. Returns whether budgets and rates have room.
local function grow(unit, field, taken, wanted, before)
  local held, progress = reservation[field], posted(reservation, unit)
  local grown, spent = max(taken, wanted), progress - before
  local unposted_before = max(0, held - before)
  local budgets = grown == taken or budgets_allow(unit, spent + max(0, grown - progress) - unposted_before)
  local rates = grown == taken or rates_allow(unit, grown - held)
  reservation[field] = budgets and rates and grown or taken
  local more = unposted(reservation, unit) - unposted_before
  if spent ~= 0 or more ~= 0 then
    move(reservation, scopes, unit, spent, more, limits)
    if owners then move(reservation, scopes, unit, spent, more, limits, owners) end
  end
  if reservation[field] ~= held then use(scopes, limits, unit, reservation[field] - held) end
  return budgets, rates
end

local posted_cost, posted_tokens = posted(reservation, MICRO_USD), posted(reservation, TOKENS)
reservation[POSTED] = max(reservation[POSTED], cost)
reservation[POSTED_INPUT] = max(reservation[POSTED_INPUT], input)
reservation[POSTED_OUTPUT] = max(reservation[POSTED_OUTPUT], output)

local budgets, rates = grow(MICRO_USD, RESERVED, reservation[RESERVED], wanted_cost, posted_cost)
-- Used tokens are charged even if a rate has no room for them; wanted ones are then not held.
local taken = max(reservation[ACCOUNTED], posted(reservation, TOKENS))
local tokens = grow(TOKENS, ACCOUNTED, taken, wanted_tokens, posted_tokens)

reservation[DUE] = max(reservation[DUE], now + LEASE_MS)
save_scopes(key, scopes)
save_reservation(id, reservation)
if hold then
  change_counters(scopes)
  save_hold(id, { reservation, owners })
end
save_counters()
return { budgets and rates and tokens and 'extended' or 'exhausted' }
