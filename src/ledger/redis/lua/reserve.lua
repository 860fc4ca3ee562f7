-- Reserves for requests of one organisation, in their order, each as a call of its own would: holds one request, its
-- tokens, a place among the concurrent requests and its cost, or returns which limit rejects it. Every check of a
-- request comes before its first change: a rejected request consumes nothing. Many in one call: creating the functions
-- below takes as long as reserving for one or two requests, and scopes are read and written once.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: witness epoch shared accounts requests
-- `shared`, `accounts` and `requests` are JSON, the first two as `open_accounts` takes them. A request: id, number of
-- its account, series, input tokens, output tokens, cost, floor of the cost, amounts of further units, and if it is not
-- the first turn of the request, its number. With a later turn than its reservation has, a request that is admitted
-- takes the place of that one, in the counters of its account; one that is refused leaves it as it is.
--
-- `preview` is the same script with SAVES = 0: it replies what `reserve` would, and only ends overdue reservations.
--
-- The reply is one text, because a gateway takes 0.5 µs for each string of a list: a line for each request with spaces
-- between its words, or `emptied` for all.
-- outcomes:
--   granted admitted, rates   (the same for a repeated call)
--   refused scope limit wait held all_held spent, room, rates   (scope and limit by name; `budget` and a number from 0:
--     that counter of the account; wait in milliseconds, -1:
--     waiting never helps; held is of this limit, all_held of all limits that reject; spent of a budget, else -1)
--   emptied   (Redis has lost the data of the epoch that the caller knows; nothing is changed)
--   crowded counter   (the organisation has too many counters for this one of the account, a number from 0, to be new)
--   ended   (settled, lost or cancelled before)
-- `held` is 1 if the request would pass without the reservations of running requests. `rates` are two numbers for each
-- rate of the organisation, of the key, then of each counter: what remains, and the milliseconds until it is full;
-- -1 -1 without a limit. `room` is a number for each unit: the most of it that a request may take to pass now.

if SAVES == 1 then
  local current = this_epoch(epoch)
  if epoch ~= 0 and current ~= epoch then return { 'emptied' } end
end

reap()

-- Everything that can have an unknown version is read before the first write: then nothing is changed.
open_accounts(accounts, shared)
local ids, later_ids, granted, changed, holds, dropped = {}, {}, {}, {}, {}, {}
for i = 1, #requests do
  requests[i] = read_request(requests[i], accounts)
  ids[i] = requests[i].id
  if requests[i].turn > 0 then later_ids[#later_ids + 1] = ids[i] end
end
local reservations, earlier_holds = load_reservations(ids), load_holds(later_ids)
-- A later turn changes counters that its own account may lack. They must not have advanced for a request of the call
-- that changes nothing. Without later turns the replies are the same, and cost less.
local is_each_apart = #later_ids > 0
for a = 1, is_each_apart and 0 or #accounts do
  advance_counters(accounts[a].scopes, accounts[a].limits, accounts[a])
end

local counted
-- How many counters there are.
local function counter_count()
  counted = counted or tonumber(redis.call('HGET', COUNTERS, COUNT) or 0)
  return counted
end

-- Of the request that is being decided.
local limits, scopes, demand
-- Of all limits that reject it, the one with the longest wait; the first of equals.
local longest, refused_scope, refused_limit, refused_held, all_held

local function with_rates(reply)
  for s = 1, #scopes do
    for r = 1, RATES do
      local limit = limits[s][RATE[r]]
      local at = #reply + 1
      if limit == NONE then
        reply[at], reply[at + 1] = -1, -1
      else
        local used = scopes[s][USED[r]]
        reply[at] = exact(max(0, floor(limit - used)))
        reply[at + 1] = exact(limit > 0 and min(AMOUNT_MAX, ceil(used * MINUTE_MS / limit)) or 0)
      end
    end
  end
  return reply
end

local function refuse(s, limit, wait, held)
  all_held = all_held and held
  if wait <= longest then return end
  longest, refused_scope, refused_limit, refused_held = wait, s, limit, held
end

-- The place of the first counter that would be new although there are as many as there may be.
local function crowded_counter(account)
  local names, added, first = account.scopes.names, 0, nil
  for i = 1, #names do
    if counters[names[i]].is_new and account.bounded[i] then
      added, first = added + 1, first or i
    end
  end
  return added > 0 and counter_count() + added > COUNTERS_MAX and first
end

local function refuse_rate(s, r, limit)
  local used, unit = scopes[s][USED[r]], RATE_UNIT[r]
  local wanted = demand[unit]
  -- Reserved tokens that remain unused are returned; the request itself never is.
  local held = unit ~= REQUESTS and wanted <= limit and scopes[s][LIVE] > 0
  refuse(s, RATE[r], wanted > limit and math.huge or (used + wanted - limit) * MINUTE_MS / limit, held)
end

local function refuse_budget(s, b, limit)
  local scope, wanted = scopes[s], demand[BUDGET_UNIT[b]]
  local spent, held = scope[SPENT[b]], scope[HELD[b]]
  if wanted > limit then
    refuse(s, BUDGET[b], math.huge, false)
  elseif wanted > limit - spent then
    -- Without trusted clocks a window may not have rolled yet although its end has passed: it will soon.
    local fin = s > 2 and counters[scopes.names[s - 2]].ends[b] or window_end_ms(PERIOD[b], scope[WINDOW[b]])
    refuse(s, BUDGET[b], fin == AMOUNT_MAX and math.huge or max(1, fin - now), false)
  else
    -- The larger the share of the held amount that must be released, the longer the wait.
    refuse(s, BUDGET[b], max(HELD_WAIT_MS_MIN, HELD_WAIT_MS_MAX * (wanted - (limit - spent - held)) / held), true)
  end
end

-- Checks all limits of a scope. One function for all of them, because most of them have room, and calling one for each
-- took a third of the time.
local function check(s)
  local scope, own = scopes[s], limits[s]
  for r = 1, RATES do
    local limit = own[RATE[r]]
    if limit ~= NONE and scope[USED[r]] + demand[RATE_UNIT[r]] > limit then refuse_rate(s, r, limit) end
  end
  for p = 1, #CONCURRENCY do
    local most = own[CONCURRENCY[p]]
    if most ~= NONE and scope[LIVE] + 1 > most then
      refuse(s, CONCURRENCY[p], most < 1 and math.huge or CONCURRENT_WAIT_MS, most >= 1)
    end
  end
  for b = 1, s > 2 and BUDGETS or OWN_BUDGETS do
    local limit, wanted = own[BUDGET[b]], demand[BUDGET_UNIT[b]]
    if limit == NONE then limit = AMOUNT_MAX end
    -- A request that costs nothing passes a budget that is used up, and also one that is overdrawn.
    if wanted > 0 and wanted > limit - scope[SPENT[b]] - scope[HELD[b]] then refuse_budget(s, b, limit) end
  end
end

-- What is spent of the budget that rejects the request; -1 if another limit does.
local function spent_of_refused()
  for b = 1, BUDGETS do
    if BUDGET[b] == refused_limit then return exact(scopes[refused_scope][SPENT[b]]) end
  end
  return -1
end

local function with_room(reply)
  for unit = 1, UNITS do
    local room = AMOUNT_MAX
    for s = 1, #scopes do
      local scope, own = scopes[s], limits[s]
      for r = 1, RATES do
        local limit = own[RATE[r]]
        if RATE_UNIT[r] == unit and limit ~= NONE then room = min(room, floor(limit - scope[USED[r]])) end
      end
      for b = 1, s > 2 and BUDGETS or OWN_BUDGETS do
        if BUDGET_UNIT[b] == unit then room = min(room, budget_limit(own, b) - scope[SPENT[b]] - scope[HELD[b]]) end
      end
      for p = 1, unit == REQUESTS and #CONCURRENCY or 0 do
        local most = own[CONCURRENCY[p]]
        if most ~= NONE then room = min(room, most - scope[LIVE]) end
      end
    end
    reply[#reply + 1] = exact(max(0, room))
  end
  return reply
end

-- Marks the budgets that would reject a request even if nothing ran. `refusal-mark.ts` is the same.
local function mark_refusals(s, key)
  local scope, marks, counter = scopes[s], nil, s > 2 and scopes.names[s - 2]
  -- A counter that no request has opened is not kept for one that was refused.
  if counter and counters[counter].is_new then return end
  for b = 1, counter and BUDGETS or OWN_BUDGETS do
    local limit, spent, wanted = budget_limit(limits[s], b), scope[SPENT[b]], demand[BUDGET_UNIT[b]]
    if wanted > 0 and wanted > limit - spent then
      marks = marks or load_refused(s, key, counter)
      local before = refused_of(marks, scope, b)
      local is_refusing = before > 0 and before > limit - spent
      local after = is_refusing and min(before, wanted) or wanted
      if before == 0 then record_crossing(scopes, s, b, limit, 'refused_') end
      if after ~= before then
        for i = #marks + 1, 2 * BUDGETS do marks[i] = 0 end
        marks[2 * b - 1], marks[2 * b] = scope[WINDOW[b]], after
        local hash, field = SCOPES, not counter and refused_field(s, key)
        if counter then hash, field = COUNTERS, MARKS .. counter end
        redis.call('HSET', hash, field, cmsgpack.pack(marks))
      end
    end
  end
end

-- The windows of the counters of a request, and the counts of their buckets, as its hold keeps them.
local function owners_of()
  local owners = {}
  for s = 3, #scopes do
    local scope, own, windows, idled = scopes[s], limits[s], {}, {}
    for b = 1, BUDGETS do windows[b] = scope[WINDOW[b]] end
    for r = 1, RATES do idled[r] = own[RATE[r]] ~= NONE and scope[IDLED[r]] or -1 end
    owners[s - 2] = { scopes.names[s - 2], windows, idled }
  end
  return owners
end

-- Adds what a reservation holds to its counters.
local function begin_hold(id, reservation)
  local began = amounts_of(reservation, posted)
  for s = 3, #scopes do
    local scope = scopes[s]
    scope[LIVE] = scope[LIVE] + 1
    for b = 1, BUDGETS do
      local unit = BUDGET_UNIT[b]
      local spent = began[unit]
      if spent > 0 then scope[SPENT[b]] = sum(scope[SPENT[b]], spent) end
      scope[HELD[b]] = scope[HELD[b]] + demand[unit] - spent
    end
    local counter = counters[scopes.names[s - 2]]
    if counter.is_new and counted then counted = counted + 1 end
  end
  reservation[HAS_COUNTERS] = #scopes - 2
  holds[id] = { reservation, owners_of() }
  change_counters(scopes)
end

local function restore_list(list, copy)
  for i = 1, #copy do list[i] = copy[i] end
end

-- Returns what undoes later changes of counters.
local function undo_of(names)
  local before = {}
  for i = 1, #names do
    local counter = counters[names[i]]
    before[i] = { { unpack(counter.scope) }, { unpack(counter.ends) }, counter.kept, counter.limits, counter.windows }
  end
  return function()
    for i = 1, #names do
      local counter, was = counters[names[i]], before[i]
      restore_list(counter.scope, was[1])
      restore_list(counter.ends, was[2])
      counter.kept, counter.limits, counter.windows = was[3], was[4], was[5]
    end
  end
end

-- Releases all that a reservation has of its limits. Returns the scopes of its hold, and what undoes it.
local function release(id, reservation, account)
  local hold = holds[id] or earlier_holds[id]
  local own = hold and scopes_of(hold[2], account.windows) or {}
  local own_limits = hold and limits_of(hold[2], account)
  local undo_own, first, second = undo_of(own.names or {}), { unpack(scopes[1]) }, { unpack(scopes[2]) }
  local function undo()
    undo_own()
    restore_list(scopes[1], first)
    restore_list(scopes[2], second)
  end
  free(reservation, scopes, NOTHING, limits)
  correct(reservation, scopes, limits, NOTHING)
  if hold then
    advance_counters(own, own_limits, account)
    free(hold[1], own, NOTHING, own_limits, hold[2])
    correct(hold[1], own, own_limits, NOTHING, hold[2])
  end
  return own, undo
end

local function reserve(request)
  local id, key, reservation = request.id, request.account.key, reservations[request.id]
  limits, scopes, demand = request.account.limits, request.account.scopes, request.demand
  local is_cancelled = reservation and reservation[STATE] == IS_CANCELLED
  if is_cancelled and request.turn > (reservation[CANCELLED_TURN] or AMOUNT_MAX) then reservation = nil end
  if reservation and reservation[STATE] ~= IS_LIVE then return { 'ended' } end
  local undo_advance = function() end
  if is_each_apart and scopes.names then
    undo_advance = undo_of(scopes.names)
    advance_counters(scopes, limits, request.account)
  end
  if reservation and request.turn <= (reservation[TURN] or 0) then
    local reply = with_rates({ 'granted', exact(reservation[ADMITTED]) })
    undo_advance()
    return reply
  end
  local crowded = scopes.names and crowded_counter(request.account)
  if crowded then
    undo_advance()
    return { 'crowded', crowded - 1 }
  end

  local released, undo
  if reservation then released, undo = release(id, reservation, request.account) end
  longest, refused_scope, refused_limit, refused_held, all_held = 0, nil, nil, false, true
  for s = 1, #scopes do check(s) end

  if refused_scope then
    for s = 1, SAVES * #scopes do mark_refusals(s, key) end
    local wait = longest == math.huge and -1 or exact(min(AMOUNT_MAX, ceil(longest)))
    local scope, limit = SCOPE_NAMES[refused_scope] or 'budget' .. refused_scope - 3, LIMITS[refused_limit]
    local held, all = refused_held and 1 or 0, all_held and 1 or 0
    local reply = with_rates(with_room({ 'refused', scope, limit, wait, held, all, spent_of_refused() }))
    if undo then undo() end
    undo_advance()
    return reply
  end

  -- All checks are done; only changes follow.
  if released then
    change_counters(released)
    -- Both: a third turn in this call must not release it again.
    holds[id], earlier_holds[id], dropped[#dropped + 1] = nil, nil, id
  end
  reservation = empty_reservation()
  reservation[TURN] = request.turn
  reservation[STATE], reservation[DUE], reservation[ADMITTED] = IS_LIVE, now + LEASE_MS, now
  reservation[KEY], reservation[SERIES], reservation[INPUT] = key, request.series, request.input
  reservation[ACCOUNTED], reservation[RESERVED], reservation[FLOOR] = demand[TOKENS], request.cost, request.floor_cost
  for unit = FIRST_FURTHER_UNIT, UNITS do reservation[FURTHER_RESERVED[unit]] = demand[unit] end
  for s = 1, 2 do
    local scope, own, admission, idled = scopes[s], limits[s], ADMISSION[s], IDLED_BEFORE[s]
    scope[LIVE] = scope[LIVE] + 1
    for b = 1, OWN_BUDGETS do
      local wanted, unit = demand[BUDGET_UNIT[b]], BUDGET_UNIT[b]
      local spent = posted(reservation, unit)
      reservation[admission[b]] = scope[WINDOW[b]]
      scope[SPENT[b]] = sum(scope[SPENT[b]], spent)
      scope[HELD[b]] = scope[HELD[b]] + wanted - spent
    end
    for r = 1, RATES do
      reservation[idled[r]] = own[RATE[r]] ~= NONE and scope[IDLED[r]] or -1
    end
  end
  if #scopes > 2 then begin_hold(id, reservation) end
  for unit = 1, UNITS do use(scopes, limits, unit, demand[unit]) end
  reservations[id], changed[key] = reservation, scopes
  granted[#granted + 1] = id
  return with_rates({ 'granted', exact(now) })
end

local replies = {}
for i = 1, #requests do replies[i] = table.concat(reserve(requests[i]), ' ') end
if #granted > 0 and SAVES == 1 then
  for key, scopes in pairs(changed) do save_scopes(key, scopes) end
  save_reservations(granted, reservations)
end
drop_holds(dropped)
if SAVES == 1 then save_with_holds(holds) end
return { table.concat(replies, '\n') }
