-- Holds one request, its tokens, a place among the concurrent ones and its cost, or says which limit refuses it. Every check comes
-- before the first write; what is refused consumes nothing.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits model input output cost floor life
-- outcomes:
--   granted admitted, four rates   (the same for a repeated call)
--   refused scope limit wait held all_held, four rates   (wait -1: waiting never helps; all_held is of all limits that refuse)
--   emptied   (Redis has lost what it had in the life that the caller knows; nothing is done)
--   ended   (settled, lost or cancelled before)
-- `held` is 1 if only what running requests hold stands in the way. A rate is two numbers, what remains and the milliseconds until it is full:
-- the organisation's requests and tokens, then the key's; -1 -1 without a limit.

local model = ARGV[6]
local input, output, cost, floor_cost = amount(ARGV[7]), amount(ARGV[8]), amount(ARGV[9]), amount(ARGV[10])
local tokens = sum(input, output)
local known = amount(ARGV[11])

local life = this_life(known)
if known ~= 0 and life ~= known then return { 'emptied' } end

reap()

local reservation = load_reservation(id)
if reservation and reservation[STATE] ~= IS_LIVE then return { 'ended' } end

local scopes = load_scopes(key)
advance(scopes[1], limits[1])
advance(scopes[2], limits[2])

local function with_rates(reply)
  for s = 1, 2 do
    for r = 1, 2 do
      local limit, used = limits[s][r], scopes[s][2 + r]
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

local function check_rate(s, i, used, wanted)
  local limit = limits[s][i]
  if limit == NONE or used + wanted <= limit then return end
  -- Tokens that were reserved and not taken are given back; a request is a request.
  local held = i == 2 and wanted <= limit and scopes[s][LIVE] > 0
  refuse(s, i, wanted > limit and math.huge or (used + wanted - limit) * MINUTE_MS / limit, held)
end

local function check_spend(s, b, limit, renews)
  local spent, held = scopes[s][BUDGETS[b] + SPENT], scopes[s][BUDGETS[b] + HELD]
  if cost == 0 or has_room(scopes[s], BUDGETS[b], limit, cost) then return end
  if cost > limit then
    refuse(s, 3 + b, math.huge, false)
  elseif cost > limit - spent then
    -- A window that is over by a clock that is not trusted ends soon.
    refuse(s, 3 + b, max(1, renews), false)
  else
    -- The larger the share of what is held that must come free, the longer the wait.
    refuse(s, 3 + b, max(HELD_WAIT_MS_MIN, HELD_WAIT_MS_MAX * (cost - (limit - spent - held)) / held), true)
  end
end

for s = 1, 2 do
  local scope = scopes[s]
  check_rate(s, 1, scope[REQUESTS], 1)
  check_rate(s, 2, scope[TOKENS], tokens)
  local places = limits[s][3]
  if places ~= NONE and scope[LIVE] + 1 > places then refuse(s, 3, places < 1 and math.huge or CONCURRENT_WAIT_MS, places >= 1) end
  local ends = { (scope[DAY] + 1) * DAY_MS, month_start_ms(scope[MONTH] + 1), math.huge }
  for b = 1, 3 do check_spend(s, b, most(limits[s], b), ends[b] - now) end
end

if refused_scope then
  local wait = longest == math.huge and -1 or exact(min(AMOUNT_MAX, ceil(longest)))
  return with_rates({ 'refused', refused_scope, refused_limit, wait, refused_held and 1 or 0, all_held and 1 or 0 })
end

-- Everything is checked; from here on everything is written.
for s = 1, 2 do
  local scope = scopes[s]
  use(scope, limits[s], 1, tokens)
  scope[LIVE] = scope[LIVE] + 1
  for b = 1, 3 do scope[BUDGETS[b] + HELD] = scope[BUDGETS[b] + HELD] + cost end
end
save_scopes(key, scopes)
save_reservation(id, {
  VERSION, IS_LIVE, now + LEASE_MS, now, key, model, input, tokens, cost, 0, 0, 0, floor_cost,
  scopes[1][DAY], scopes[1][MONTH], scopes[1][TOTAL], scopes[2][DAY], scopes[2][MONTH], scopes[2][TOTAL],
  idled_before(scopes[1], limits[1], 1), idled_before(scopes[1], limits[1], 2),
  idled_before(scopes[2], limits[2], 1), idled_before(scopes[2], limits[2], 2),
})
return with_rates({ 'granted', now })
