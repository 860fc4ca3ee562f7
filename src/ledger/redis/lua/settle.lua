-- Settles requests of one organisation, in their order, each as a call of its own would: releases what is held and sets
-- `spent` to the actual cost. Never rejects for lack of room: the tokens are used. The charge of a lost reservation is
-- corrected. Many in one call: creating the functions below takes as long as settling one or two requests, and scopes
-- and usage are read and written once.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: witness direct epoch node shared accounts requests
-- `shared`, `accounts` and `requests` are JSON, the first two as for `reserve`. A request: id, number of its account,
-- time of its admission, series, the columns of its charge, amounts of further units, and if the windows of its
-- account's counters were others at its admission, those.
--
-- The reply is one text with spaces between its words: an outcome for each request, or `emptied` for all.
-- outcomes:
--   settled
--   already_settled
--   cancelled   (it was cancelled before; nothing is charged)
--   emptied   (this is not the epoch that the caller knows, or its node has not decided yet what it gives back to it;
--     nothing is changed)
--   unknown   (only if direct is 0; if it is 1, an unknown reservation is charged to the windows of its admission)

local record
if node ~= '' then
  record = load_node(node)
  if this_epoch(epoch) ~= epoch or not record then return { 'emptied' } end
  if record[NODE_EPOCH] ~= epoch or record[NODE_GIVEN] == 0 then return { 'emptied' } end
end

-- Everything that can have an unknown version is read before the first write: then nothing is changed.
local changed, ids = {}, {}
open_accounts(accounts, shared)
for i = 1, #requests do
  requests[i] = read_request(requests[i], accounts)
  ids[i] = requests[i].id
end
local reservations = load_reservations(ids)
local held_ids = {}
for i = 1, #requests do
  local reservation = reservations[ids[i]]
  local has_counters = requests[i].account.windows or reservation and (reservation[HAS_COUNTERS] or 0) > 0
  if has_counters then held_ids[#held_ids + 1] = ids[i] end
end
local holds, dropped = load_holds(held_ids), {}
local function end_hold_of(request, used)
  local hold = holds[request.id]
  holds[request.id], dropped[#dropped + 1] = nil, request.id
  return end_hold(hold, used, request.account), hold[2]
end

-- Whether a reservation counts in the counters of its account. If not, Redis was set back to an earlier turn of the
-- request.
local function counts_in(hold, account)
  local names, owners = account.scopes.names or {}, hold and hold[2] or {}
  for i = 1, max(#names, #owners) do
    if not owners[i] or owners[i][1] ~= names[i] then return false end
  end
  return true
end

-- Lists of figures that this call changes, by field, and what it adds to the audit trail.
local usage, usage_of_node, entries = {}, {}, {}
local function note(lists, hash, field, sign, figures)
  local totals = lists[field] or load_figures(redis.call('HGET', hash, field))
  lists[field] = totals
  add_to(totals, sign, figures)
end

-- The counters of a request without a hold in them, in the windows of its admission, no later than their own.
local function admitted_owners(scopes, windows)
  local owners = {}
  for s = 3, #scopes do
    local bound = {}
    for b = 1, BUDGETS do bound[b] = min(scopes[s][WINDOW[b]], windows[b]) end
    owners[s - 2] = { scopes.names[s - 2], bound, {} }
  end
  return owners
end

-- What this call charges for a node to counters, of each budget, by their names.
local charged_to = {}
local function note_charged(scopes, owners, amounts)
  if node == '' then return end
  for s = 3, #scopes do
    local name, bound = scopes.names[s - 2], owners[s - 2][2]
    local totals = charged_to[name] or {}
    charged_to[name] = totals
    for b = 1, BUDGETS do
      local spent = scopes[s][WINDOW[b]] == bound[b] and amounts[BUDGET_UNIT[b]] or 0
      totals[b] = sum(totals[b] or 0, spent)
    end
  end
end

-- Charges the counters of a request that holds nothing in them. `noted`: what counts as charged for the node.
local function charge_counters(request, amounts, noted)
  local account = request.account
  local scopes, limits = account.scopes, account.limits
  if not scopes.names then return end
  advance_counters(scopes, limits, account)
  local owners = admitted_owners(scopes, request.windows or account.windows[1])
  note_charged(scopes, owners, noted)
  for _, unit in ipairs(BUDGET_UNITS) do move(nil, scopes, unit, amounts[unit], 0, limits, owners) end
  change_counters(scopes)
end

local function settle(request)
  local id, admitted, charge, used, series = request.id, request.admitted, request.charge, request.used, request.series
  local key, limits, scopes = request.account.key, request.account.limits, request.account.scopes
  local reservation = reservations[id]
  if not reservation and direct == 0 then return { 'unknown' } end
  local hold = holds[id]
  if reservation and reservation[STATE] == IS_SETTLED then
    -- A gateway of an earlier version has settled it, and knows no holds.
    if hold then end_hold_of(request, used) end
    return { 'already_settled' }
  end
  if reservation and reservation[STATE] == IS_CANCELLED then return { 'cancelled' } end

  local kind, held, claimed = 'settled', 0, nil
  if reservation then
    admitted, held = reservation[ADMITTED], reservation[RESERVED]
    if reservation[STATE] == IS_LOST then
      kind = 'late'
      local place = usage_field(day_of(admitted), key, by_hour(reservation[SERIES], admitted))
      note(usage, USAGE, place, -1, lost_figures(reservation))
    end
    free(reservation, scopes, used, limits)
    correct(reservation, scopes, limits, used)
    if not counts_in(hold, request.account) then
      if hold then end_hold_of(request, NOTHING) end
      charge_counters(request, used, used)
    elseif hold then
      local own, owners = end_hold_of(request, used)
      note_charged(own, owners, used)
    end
  else
    kind = 'direct'
    -- No later than the scope's own window, which does not roll while the clocks disagree.
    local windows, bound = windows_at(admitted), {}
    for s = 1, 2 do
      for b = 1, OWN_BUDGETS do bound[ADMISSION[s][b]] = min(scopes[s][WINDOW[b]], windows[PERIOD[b]]) end
    end
    local noted = { unpack(used) }
    if charge.model ~= '' then
      claimed = claim(admitted, key, figures_of(charge))
      used[MICRO_USD] = used[MICRO_USD] - claimed[COST_FIGURE]
    end
    for _, unit in ipairs(BUDGET_UNITS) do move(bound, scopes, unit, used[unit], 0, limits) end
    charge_counters(request, used, noted)
  end
  reservations[id], changed[key] = ended(IS_SETTLED), scopes

  -- A request that reached no provider has no model, and is not counted as usage.
  if charge.model ~= '' then
    local figures = figures_of(charge)
    local place = usage_field(day_of(admitted), key, by_hour(series, admitted))
    note(usage, USAGE, place, 1, figures)
    if claimed then note(usage, USAGE, place, -1, claimed) end
    if node ~= '' then
      note(usage_of_node, NODES, field_of_node(node, day_of(admitted), key, series), 1, figures)
      record[NODE_REQUESTS] = sum(record[NODE_REQUESTS], figures[1])
    end
  end
  entries[#entries + 1] = { id, kind, key, admitted, charge, held }
  return { 'settled' }
end

local outcomes, settled = {}, {}
for i = 1, #requests do
  outcomes[i] = settle(requests[i])[1]
  if outcomes[i] == 'settled' then settled[#settled + 1] = ids[i] end
end
if #settled > 0 then
  for key, scopes in pairs(changed) do save_scopes(key, scopes) end
  save_reservations(settled, reservations, cmsgpack.pack(ended(IS_SETTLED)))
  for field, totals in pairs(usage) do save_figures(USAGE, field, totals) end
  for field, totals in pairs(usage_of_node) do save_figures(NODES, field, totals) end
  if record then save_node(node, record) end
  for i = 1, #entries do audit(unpack(entries[i])) end
end
local parts = parts_with(node, charged_to)
drop_holds(dropped)
save_counters(parts)
return { table.concat(outcomes, ' ') }
