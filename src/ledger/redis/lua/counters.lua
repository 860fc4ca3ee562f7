-- The counters of budgets, in front of each script after the shared code, and what reads all owners of a call.
-- `embedded/counters.ts` is the same in TypeScript.
--
-- In their hash: each counter, a list of its scope, the ends of its windows, and until when it is kept; its marks as
-- `load_refused` has them; the part of a reservation that counts in counters, its *hold*, a list of a record as that
-- of the reservation, and for each counter its name, windows at its admission and counts of buckets; and how many
-- counters there are. In the set of ends: counters until when they are kept, holds until they are overdue. Gateways of
-- an earlier version know neither, and may end a reservation whose hold goes on: so a hold has all that its own end
-- needs.
-- Also what the settlements of a node have spent in a counter, its *part*, so that the node can compare it with its own
-- log: a list of the version, then for each budget a window and what was spent in it. And of each counter the nodes
-- that have a part of it, with zero bytes between them.
local COUNTER, HOLD, MARKS, COUNT, PART, PART_NODES = 'c', 'h', 'm', 'n', 'p', 'o'
local KEPT_MS, ZONES_MS, LATER_MS = 3600000, 93600000, 60000

-- Counters of this call, by name. `is_new`: it is not stored, `is_added`: this call adds it.
local counters = {}

-- `windows` are those at present, their ends and their starts, by budget; without them a new counter has none.
local function open_counters(names, windows)
  local missing = {}
  for i = 1, #names do
    if not counters[names[i]] then missing[#missing + 1] = COUNTER .. names[i] end
  end
  if #missing == 0 then return end
  local packed = redis.call('HMGET', COUNTERS, unpack(missing))
  for i = 1, #missing do
    local name = string.sub(missing[i], 2)
    if packed[i] then
      local stored = cmsgpack.unpack(packed[i])
      if stored[1][1] ~= VERSION then error({ err = 'VERSION of a counter is not known' }) end
      counters[name] = { scope = stored[1], ends = stored[2], kept = stored[3] }
    else
      local scope, ends = empty_scope(now, 0, 0), {}
      for b = 1, BUDGETS do
        scope[WINDOW[b]] = windows and windows[1][b] or 0
        ends[b] = windows and windows[2][b] or AMOUNT_MAX
      end
      counters[name] = { scope = scope, ends = ends, kept = now + KEPT_MS, is_new = true }
    end
  end
end

-- Saves the counters that have changed, and further fields of their hash: the list `fields` has them, each with its
-- value.
local function save_counters(fields)
  local added = 0
  fields = fields or {}
  for name, counter in pairs(counters) do
    if counter.is_changed then
      fields[#fields + 1] = COUNTER .. name
      fields[#fields + 1] = cmsgpack.pack({ counter.scope, counter.ends, counter.kept })
      if counter.is_added then
        added = added + 1
        redis.call('ZADD', COUNTER_ENDS, counter.kept, COUNTER .. name)
      end
      counter.is_added, counter.is_changed = nil, nil
    end
  end
  if #fields > 0 then redis.call('HSET', COUNTERS, unpack(fields)) end
  if added > 0 then redis.call('HINCRBY', COUNTERS, COUNT, added) end
end

local function part_field(node, name)
  return PART .. node .. '\0' .. name
end

-- The parts of a node with amounts added, for each counter one of each budget, in the present windows, as
-- `save_counters` takes them.
local function parts_with(node, charged)
  local names, fields, changes = {}, {}, {}
  for name in pairs(charged) do
    names[#names + 1], fields[#fields + 1] = name, part_field(node, name)
  end
  if #names == 0 then return changes end
  local packed = redis.call('HMGET', COUNTERS, unpack(fields))
  for i = 1, #names do
    local part, scope, amounts = { VERSION }, counters[names[i]].scope, charged[names[i]]
    if packed[i] then
      part = cmsgpack.unpack(packed[i])
      if part[1] ~= VERSION then error({ err = 'VERSION of a part is not known' }) end
    else
      local nodes = redis.call('HGET', COUNTERS, PART_NODES .. names[i])
      changes[#changes + 1] = PART_NODES .. names[i]
      changes[#changes + 1] = nodes and nodes .. '\0' .. node or node
    end
    for b = 1, BUDGETS do
      local window, at = scope[WINDOW[b]], 2 * b
      if part[at] ~= window then part[at], part[at + 1] = window, 0 end
      part[at + 1] = sum(part[at + 1], amounts[b])
    end
    changes[#changes + 1], changes[#changes + 2] = fields[i], cmsgpack.pack(part)
  end
  return changes
end

-- A hold as it is stored: of the reservation what the end of the hold needs, and windows once if all counters are in
-- the same, as they most often are.
local function packed_hold(hold)
  local reservation, record, owners, windows = hold[1], {}, {}, hold[2][1][2]
  for i = 1, HOLD_FIELDS do record[i] = reservation[i] end
  record[KEY], record[SERIES] = '', ''
  for i = 1, #hold[2] do
    local owner, is_same = hold[2][i], true
    for b = 1, BUDGETS do is_same = is_same and owner[2][b] == windows[b] end
    owners[i] = { owner[1], is_same and 0 or owner[2], owner[3] }
  end
  return cmsgpack.pack({ record, owners, windows })
end

local function unpack_hold(packed)
  if not packed then return nil end
  local hold = cmsgpack.unpack(packed)
  if hold[1][1] ~= VERSION then error({ err = 'VERSION of a hold is not known' }) end
  for i = 1, #hold[2] do
    local owner = hold[2][i]
    if owner[2] == 0 then owner[2] = hold[3] end
  end
  return hold
end

local function load_hold(id)
  return unpack_hold(redis.call('HGET', COUNTERS, HOLD .. id))
end

-- Holds by the ids of their reservations.
local function load_holds(ids)
  local fields, holds = {}, {}
  for i = 1, #ids do fields[i] = HOLD .. ids[i] end
  local packed = #ids > 0 and redis.call('HMGET', COUNTERS, unpack(fields))
  for i = 1, #ids do holds[ids[i]] = unpack_hold(packed[i]) end
  return holds
end

local function save_hold(id, hold)
  redis.call('HSET', COUNTERS, HOLD .. id, packed_hold(hold))
  redis.call('ZADD', COUNTER_ENDS, hold[1][DUE], HOLD .. id)
end

-- Saves the counters that have changed together with holds, which are by id.
local function save_with_holds(holds)
  local fields, ends = {}, {}
  for id, hold in pairs(holds) do
    fields[#fields + 1], ends[#ends + 1] = HOLD .. id, hold[1][DUE]
    fields[#fields + 1], ends[#ends + 1] = packed_hold(hold), HOLD .. id
  end
  if #ends > 0 then redis.call('ZADD', COUNTER_ENDS, unpack(ends)) end
  save_counters(fields)
end

local function drop_holds(ids)
  local fields = {}
  for i = 1, #ids do fields[i] = HOLD .. ids[i] end
  if #ids == 0 then return end
  redis.call('HDEL', COUNTERS, unpack(fields))
  redis.call('ZREM', COUNTER_ENDS, unpack(fields))
end

-- The scopes of the counters of a hold, as those of an account: from the third place on.
-- `windows` as in `open_counters`.
local function scopes_of(owners, windows)
  local names, scopes = {}, { false, false }
  for i = 1, #owners do names[i] = owners[i][1] end
  open_counters(names, windows)
  for i = 1, #names do scopes[i + 2] = counters[names[i]].scope end
  scopes.names = names
  return scopes
end

-- The limits of the counters of a hold: those of the account as far as it has them.
local function limits_of(owners, account)
  local limits, known = { false, false }, {}
  local names = account and account.scopes.names or {}
  for i = 1, #names do known[names[i]] = account.limits[i + 2] end
  for i = 1, #owners do limits[i + 2] = known[owners[i][1]] or UNKNOWN_LIMITS end
  return limits
end

local function change_counters(scopes)
  local names = scopes.names or {}
  for i = 1, #names do
    local counter = counters[names[i]]
    counter.is_changed, counter.is_added, counter.is_new = true, counter.is_added or counter.is_new, nil
  end
end

-- Opens the windows of a counter that have begun in its time zone by the gateway's clock, and whose last one has ended
-- by this one. If the time zone changes, the window that runs goes on until its end, and only one of a later date
-- opens.
local function roll_counter(counter, windows)
  local scope, ends = counter.scope, counter.ends
  for b = 1, BUDGETS do
    local window, fin, opened = windows[1][b], windows[2][b], scope[WINDOW[b]]
    -- The gateway's clock is a little ahead, and its window has not begun.
    if now < windows[3][b] then window, fin = window - 1, windows[3][b] end
    if window > opened and now >= ends[b] then
      scope[WINDOW[b]], scope[SPENT[b]], scope[HELD[b]], ends[b] = window, 0, 0, fin
    elseif window == opened then
      ends[b] = fin
    end
  end
end

-- Whether a window of a counter lies ahead of the clock in every time zone. `begun`: the latest windows that have begun
-- in any of them, and the latest ends of these. `windowsAhead` in `window-reset.ts` is the same.
local function is_ahead(counter, b, begun)
  local fin = counter.ends[b]
  return counter.scope[WINDOW[b]] > begun[1][b] or fin ~= AMOUNT_MAX and fin > begun[2][b]
end

-- Until when a counter is kept: until the last of its windows has ended in every time zone: one that changes could open
-- it again. If it may be idle, for that long, and then a window that never ends does not keep it.
local function kept_until(counter, idle, own)
  local kept = now + (idle > 0 and idle or KEPT_MS)
  for b = 1, BUDGETS do
    local fin = counter.ends[b]
    if own[BUDGET[b]] ~= NONE and (idle == 0 or fin ~= AMOUNT_MAX) then kept = max(kept, fin + ZONES_MS) end
  end
  return min(AMOUNT_MAX, kept)
end

-- The same for counters, which are at the places from 3 on, and until when those of the account are kept. Without an
-- account, or without its windows, theirs stay.
local function advance_counters(scopes, limits, account)
  local windows, idle = account and account.windows, account and account.idle
  for s = 3, #scopes do
    local name = scopes.names[s - 2]
    local counter = counters[name]
    -- At one time once: for another request of the call nothing has changed.
    if counter.limits ~= limits[s] or counter.windows ~= windows then
      counter.limits, counter.windows = limits[s], windows
      advance_scope(scopes[s], limits[s])
      if windows and is_trusted() then roll_counter(counter, windows) end
      if idle and idle[name] then counter.kept = kept_until(counter, idle[name], limits[s]) end
    end
  end
end

-- Adds the counters of an account, as they are stored: a request that changes nothing must not advance them for others
-- of its call. `given`: windows, their ends and starts, then for each counter its name, how long it may be idle (0:
-- until its windows end), whether their number is bounded, and its limits.
local function add_counters(account, given)
  local scopes, names, windows = account.scopes, {}, given[1]
  for i = 2, #given do names[i - 1] = given[i][1] end
  open_counters(names, windows)
  account.scopes = { scopes[1], scopes[2], key = scopes.key, names = names }
  account.windows, account.bounded, account.idle = windows, {}, {}
  for i = 1, #names do
    account.scopes[i + 2], account.limits[i + 2] = counters[names[i]].scope, given[i + 1][4]
    account.idle[names[i]], account.bounded[i] = given[i + 1][2], given[i + 1][3] == 1
  end
end

-- Reads each account of a call for many requests, with its scopes as they are now, but for its counters. `shared`:
-- lists of limits, and windows with their ends and starts, which the accounts name by their numbers. An account: its
-- key, the limits of the organisation and of the key, and if it has counters, their windows and then each of them as
-- `add_counters` takes it.
local function open_accounts(accounts, shared)
  local scopes_by_key, lists, zones = {}, shared[1], shared[2]
  local names = {}
  for a = 1, #accounts do
    local given = accounts[a]
    for i = 5, #given do
      names[#names + 1] = given[i][1]
      given[i][4] = lists[given[i][4]]
    end
  end
  -- Most often all are in the same windows, and then one command reads them.
  if #zones == 1 then open_counters(names, zones[1]) end
  for a = 1, #accounts do
    local account = { key = accounts[a][1], limits = { lists[accounts[a][2]], lists[accounts[a][3]] } }
    local given = #accounts[a] > 3 and { zones[accounts[a][4]], unpack(accounts[a], 5) }
    accounts[a] = account
    local scopes = scopes_by_key[account.key] or load_scopes(account.key)
    -- The organisation's scope is the same for all keys.
    scopes[1] = a > 1 and accounts[1].scopes[1] or scopes[1]
    scopes_by_key[account.key], account.scopes = scopes, scopes
    advance(scopes, account.limits)
    if given then add_counters(account, given) end
  end
end

-- Ends a hold, which the caller drops, with what was used of each unit, in its counters as they are now. Returns their
-- scopes. `account` may lack them.
local function end_hold(hold, used, account)
  local reservation, owners = hold[1], hold[2]
  local scopes, limits = scopes_of(owners, account and account.windows), limits_of(owners, account)
  advance_counters(scopes, limits, account)
  free(reservation, scopes, used, limits, owners)
  correct(reservation, scopes, limits, used, owners)
  change_counters(scopes)
  return scopes
end

-- A live hold becomes lost; one that was lost is deleted.
local function reap_hold(id)
  local hold = load_hold(id)
  if not hold or hold[1][STATE] ~= IS_LIVE then return drop_holds({ id }) end
  local reservation, owners = hold[1], hold[2]
  local scopes = scopes_of(owners)
  free(reservation, scopes, amounts_of(reservation, lost_amount), nil, owners)
  change_counters(scopes)
  reservation[STATE], reservation[DUE] = IS_LOST, lost_until(reservation)
  save_hold(id, hold)
end

-- Deletes a counter that has ended.
local function reap_counter(name)
  open_counters({ name })
  local counter = counters[name]
  counters[name] = nil
  if counter.is_new then return redis.call('ZREM', COUNTER_ENDS, COUNTER .. name) end
  local kept = counter.scope[LIVE] > 0 and now + LATER_MS or counter.kept
  if kept > now then return redis.call('ZADD', COUNTER_ENDS, kept, COUNTER .. name) end
  local fields = { COUNTER .. name, MARKS .. name, PART_NODES .. name }
  local nodes = redis.call('HGET', COUNTERS, PART_NODES .. name) or ''
  for node in string.gmatch(nodes, '[^%z]+') do fields[#fields + 1] = part_field(node, name) end
  redis.call('HDEL', COUNTERS, unpack(fields))
  redis.call('ZREM', COUNTER_ENDS, COUNTER .. name)
  redis.call('HINCRBY', COUNTERS, COUNT, -1)
end

-- Ends overdue holds, then counters that nobody uses any more.
local function reap_counters()
  local due = redis.call('ZRANGEBYSCORE', COUNTER_ENDS, '-inf', now, 'LIMIT', 0, REAPED_MAX)
  for _, member in ipairs(due) do
    if string.sub(member, 1, 1) == HOLD then reap_hold(string.sub(member, 2)) end
  end
  if #due > 0 then save_counters() end
  for _, member in ipairs(due) do
    if string.sub(member, 1, 1) == COUNTER then reap_counter(string.sub(member, 2)) end
  end
end

-- Ends overdue reservations: a live one becomes lost, an ended one is deleted. Returns how many.
local function reap()
  local due = redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', now, 'LIMIT', 0, REAPED_MAX)
  for _, id in ipairs(due) do
    local reservation = load_reservation(id)
    if reservation and reservation[STATE] == IS_LIVE then
      lose(id, reservation)
    else
      delete(id, reservation)
    end
  end
  reap_counters()
  return #due
end
