-- Shared by all scripts and placed in front of each: how scopes and reservations are stored, and how they change.
-- `embedded/scope-moves.ts` and `embedded/memory-store.ts` are the same in TypeScript, line by line.
--
-- Never concatenate an amount, format it with %d or %s, or encode it with cjson: Lua shortens it to 14 digits.
-- Arguments of redis.call, cmsgpack and %.0f are exact to 2^53.

local SCOPES, RESERVATIONS, DEADLINES, AUDIT, USAGE, NODES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local CROSSINGS, COUNTERS, COUNTER_ENDS = KEYS[7], KEYS[8], KEYS[9]

-- Fields of the hash of scopes: the organisation's epoch, and the epoch that gateways of an earlier version know. They
-- treat a new epoch as a total loss, so theirs does not change while some of them still run.
local EPOCH, LEGACY_EPOCH = 'epoch', 'life'
-- The state of a reservation. The record of a settled or cancelled one ends after `due`.
local IS_LIVE, IS_SETTLED, IS_LOST, IS_CANCELLED = 1, 2, 3, 4

-- What Redis has counted for each node, so that the node can compare it with its own log: a record { version, epoch,
-- given, requests, legacy, sums } under the node's id, and its figures by day, key and series. `given` counts the rows
-- that the node has given back to this epoch; a node's settlements count only after the first: what it gives back is
-- decided then. `legacy`: the budgets contain figures from before these records, which the node's figures lack. `sums`,
-- only if `sum-node.lua` wrote it: the day before which figures were summed, then each key and its sum, with zero bytes
-- between them.
local NODE_EPOCH, NODE_GIVEN, NODE_REQUESTS, NODE_LEGACY, NODE_SUMS = 2, 3, 4, 5, 6
local ALL_GIVEN = -1
-- In the same hash: the day before which figures may have been summed by month. And the charges of lost reservations
-- that were deleted before a settlement came, by day and key, as those of a node of this name.
local FOLDED, UNCLAIMED = 'folded', 'lost'

-- The amount of a limit that is not set.
local NONE = -1
local MINUTE_MS, HOUR_MS, DAY_MS, CONCURRENT_WAIT_MS = 60000, 3600000, 86400000, 1000
local HELD_WAIT_MS_MIN, HELD_WAIT_MS_MAX = 1000, 10000
local REAPED_MAX, AUDIT_MAX, CROSSINGS_MAX = 1000, 100000, 100000
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local function amount(text)
  local value = tonumber(text)
  if not value or value < 0 or value > AMOUNT_MAX or value ~= floor(value) then
    error({ err = 'AMOUNT not a whole number from 0 to 2^53 - 1' })
  end
  return value
end

local function sum(a, b)
  return min(AMOUNT_MAX, a + b)
end

-- A number in a reply, as text: ioredis misreads integers within 57 of 2^53.
local function exact(value)
  return string.format('%.0f', value)
end

-- Days since 1970-01-01, and months since January 1970. The calendar is counted from March, in eras of 400 years.
local function day_of(ms)
  return floor(ms / DAY_MS)
end

local function month_of(ms)
  local days = floor(ms / DAY_MS) + 719468
  local era = floor(days / 146097)
  local of_era = days - era * 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + floor(year / 4) - floor(year / 100))
  local from_march = floor((5 * of_year + 2) / 153)
  local month = from_march < 10 and from_march + 3 or from_march - 9
  return (year + era * 400 + (month <= 2 and 1 or 0) - 1970) * 12 + month - 1
end

local function month_start_ms(month)
  local year, of_year = 1970 + floor(month / 12), month % 12 + 1
  if of_year <= 2 then year = year - 1 end
  local era = floor(year / 400)
  local of_era = year - era * 400
  local from_march = of_year > 2 and of_year - 3 or of_year + 9
  local day = floor((153 * from_march + 2) / 5)
  return (era * 146097 + of_era * 365 + floor(of_era / 4) - floor(of_era / 100) + day - 719468) * DAY_MS
end

local function scope_field(key)
  return 'k' .. key
end

-- The time at which the organisation's figures began. Redis loses it with them: a caller that knows another epoch has
-- charges that these figures lack. A new epoch is later than the one that the caller knows, also if the clock went
-- back.
local function begin_epoch(known)
  local epoch = max(now, known + 1)
  redis.call('HSET', SCOPES, EPOCH, epoch)
  return epoch
end

local function this_epoch(known)
  local epoch = tonumber(redis.call('HGET', SCOPES, EPOCH) or 0)
  return epoch == 0 and begin_epoch(known) or epoch
end

local function load_node(node)
  local packed = redis.call('HGET', NODES, node)
  if not packed then return nil end
  local record = cmsgpack.unpack(packed)
  if record[1] ~= VERSION and record[1] ~= SUMS_VERSION then error({ err = 'VERSION of a node is not known' }) end
  return record
end

local function save_node(node, record)
  redis.call('HSET', NODES, node, cmsgpack.pack(record))
end

-- The record of a node that gives back a row; nil if this is another epoch. If it is not the row's turn, also the
-- number of the last row that is given back.
local function turn_of_row(node, epoch, number, last)
  local record = load_node(node)
  if this_epoch(epoch) ~= epoch or not record or record[NODE_EPOCH] ~= epoch then return nil end
  local given = record[NODE_GIVEN]
  local is_turn = given ~= ALL_GIVEN and (last == 0 or number == given + 1)
  return record, not is_turn and given or nil
end

local function save_given(node, record, number, last)
  record[NODE_GIVEN] = number == last and ALL_GIVEN or number
  save_node(node, record)
end

-- Windows roll only if both clocks agree: one wrong clock must not give a budget away.
local function is_trusted()
  return math.abs(now - witness) <= CLOCK_SKEW_MS
end

-- The budgets' windows of an organisation or a key at a time, by period.
local function windows_at(ms)
  return { day_of(ms), month_of(ms), 0 }
end

local CURRENT = windows_at(now)

local function window_end_ms(period, window)
  if period == DAY then return (window + 1) * DAY_MS end
  return period == MONTH and month_start_ms(window + 1) or math.huge
end

-- A record from before a limit existed lacks the fields of that limit: they begin empty.
local function load_scope(packed)
  if not packed then return empty_scope(now, CURRENT[DAY], CURRENT[MONTH]) end
  local scope = cmsgpack.unpack(packed)
  if scope[1] ~= VERSION then error({ err = 'VERSION of a scope is not known' }) end
  if #scope < SCOPE_FIELDS then
    local at = scope[AT]
    local empty = empty_scope(at, day_of(at), month_of(at))
    for i = #scope + 1, SCOPE_FIELDS do scope[i] = empty[i] end
  end
  return scope
end

local function load_scopes(key)
  local packed = redis.call('HMGET', SCOPES, '', scope_field(key))
  return { load_scope(packed[1]), load_scope(packed[2]), key = key }
end

local function save_scopes(key, scopes)
  redis.call('HSET', SCOPES, '', cmsgpack.pack(scopes[1]), scope_field(key), cmsgpack.pack(scopes[2]))
end

local function unpack_reservation(packed)
  if not packed then return nil end
  local reservation = cmsgpack.unpack(packed)
  if reservation[1] ~= VERSION then error({ err = 'VERSION of a reservation is not known' }) end
  return reservation
end

local function load_reservation(id)
  return unpack_reservation(redis.call('HGET', RESERVATIONS, id))
end

-- Reservations by id.
local function load_reservations(ids)
  local packed, reservations = redis.call('HMGET', RESERVATIONS, unpack(ids)), {}
  for i = 1, #ids do reservations[ids[i]] = unpack_reservation(packed[i]) end
  return reservations
end

local function save_reservation(id, reservation)
  redis.call('HSET', RESERVATIONS, id, cmsgpack.pack(reservation))
  redis.call('ZADD', DEADLINES, reservation[DUE], id)
end

-- Saves many with two commands; `reservations` are by id. `packed`: the record of each, if all are the same.
local function save_reservations(ids, reservations, packed)
  local records, deadlines = {}, {}
  for i = 1, #ids do
    local reservation = reservations[ids[i]]
    records[2 * i - 1], records[2 * i] = ids[i], packed or cmsgpack.pack(reservation)
    deadlines[2 * i - 1], deadlines[2 * i] = reservation[DUE], ids[i]
  end
  redis.call('HSET', RESERVATIONS, unpack(records))
  redis.call('ZADD', DEADLINES, unpack(deadlines))
end

-- The record of a reservation that was settled or cancelled: of the latter, later turns than the one in this field may
-- still come, unless a gateway of an earlier version has written it.
local CANCELLED_TURN = 4

local function ended(state, turn)
  return { VERSION, state, now + ENDED_MS, turn }
end

local function bury(id, state, turn)
  save_reservation(id, ended(state, turn))
end

-- Drains a rate's bucket for the time since the last call. Without a limit the bucket and its clock do not change: a
-- request that still uses the configuration before a reload added the limit must not erase what was counted after it.
local function drain(scope, r, per_minute)
  if per_minute == NONE then return end
  local elapsed = max(0, now - scope[DRAINED[r]])
  scope[DRAINED[r]] = now
  local left = scope[USED[r]] - per_minute * elapsed / MINUTE_MS
  if left < 0 then scope[IDLED[r]] = scope[IDLED[r]] + 1 end
  scope[USED[r]] = max(0, left)
end

local function roll(scope)
  for b = 1, OWN_BUDGETS do
    local window = CURRENT[PERIOD[b]]
    if window > scope[WINDOW[b]] then scope[WINDOW[b]], scope[SPENT[b]], scope[HELD[b]] = window, 0, 0 end
  end
end

local function advance_scope(scope, own)
  for r = 1, RATES do drain(scope, r, own[RATE[r]]) end
  scope[AT] = now
end

local function advance(scopes, limits)
  local trusted = is_trusted()
  for s = 1, 2 do
    advance_scope(scopes[s], limits[s])
    if trusted then roll(scopes[s]) end
  end
end

-- Adds to the used amount of the rates of a unit.
local function use(scopes, limits, unit, taken)
  for r = 1, RATES do
    if RATE_UNIT[r] == unit then
      local used = USED[r]
      for s = 1, #scopes do
        if limits[s][RATE[r]] ~= NONE then scopes[s][used] = scopes[s][used] + taken end
      end
    end
  end
end

-- What a reservation holds of a unit, used or not.
local function reserved(reservation, unit)
  if unit == MICRO_USD then return reservation[RESERVED] end
  if unit == TOKENS then return reservation[ACCOUNTED] end
  if unit == REQUESTS then return 1 end
  return reservation[FURTHER_RESERVED[unit]] or 0
end

-- What a reservation has used so far. The request itself counts from its admission; the use of further units is known
-- only at the end.
local function posted(reservation, unit)
  if unit == MICRO_USD then return reservation[POSTED] end
  if unit == TOKENS then return sum(reservation[POSTED_INPUT], reservation[POSTED_OUTPUT]) end
  return unit == REQUESTS and 1 or 0
end

-- What is charged for a lost reservation: its progress, and at least its floor, the tokens of its input, and all that
-- it reserved of further units.
local function lost_amount(reservation, unit)
  if unit == MICRO_USD then return max(reservation[POSTED], reservation[FLOOR]) end
  if unit == TOKENS then return max(posted(reservation, TOKENS), reservation[INPUT]) end
  return reserved(reservation, unit)
end

-- What `spent` contains for a reservation.
local function charged(reservation, unit)
  if reservation[STATE] == IS_LOST then return lost_amount(reservation, unit) end
  return posted(reservation, unit)
end

local function unposted(reservation, unit)
  return max(0, reserved(reservation, unit) - posted(reservation, unit))
end

local function amounts_of(reservation, amount_of)
  local amounts = {}
  for unit = 1, UNITS do amounts[unit] = amount_of(reservation, unit) end
  return amounts
end

local NOTHING = amounts_of(nil, function() return 0 end)

-- Corrects the rates from what was reserved to what was used. The unused part is returned in full if the bucket never
-- ran empty since the admission: all that drained was charged to some request. If it ran empty, only the part of the
-- charge that cannot have drained yet is returned, because capacity that passed unused must not be granted later. Use
-- beyond the reservation is added. `owners` are those of a hold, whose scopes are at the places from 3 on.
local function correct(reservation, scopes, limits, used, owners)
  local age = max(0, now - reservation[ADMITTED])
  for r = 1, RATES do
    local charge = reserved(reservation, RATE_UNIT[r])
    local unused = charge - used[RATE_UNIT[r]]
    for s = owners and 3 or 1, unused == 0 and 0 or owners and #scopes or 2 do
      local scope, per_minute = scopes[s], limits[s][RATE[r]]
      if per_minute ~= NONE then
        local before = owners and owners[s - 2][3][r] or not owners and reservation[IDLED_BEFORE[s][r]]
        local back = charge
        if before == -1 then
          back = 0
        elseif before ~= scope[IDLED[r]] then
          back = max(0, charge - per_minute * age / MINUTE_MS)
        end
        scope[USED[r]] = max(0, scope[USED[r]] - min(unused, back))
      end
    end
  end
end

local function budget_limit(limits, b)
  local limit = limits[BUDGET[b]]
  return limit == NONE and AMOUNT_MAX or limit
end

local function has_room(scope, b, limit, wanted)
  return wanted <= limit - scope[SPENT[b]] - scope[HELD[b]]
end

-- Whether spend that rises reaches one of the thresholds, which follow the limits, as many for each budget. Without the
-- limits it may.
local function is_reached(limits, b, before, after)
  if not limits then return true end
  local count = (#limits - LIMIT_COUNT) / BUDGETS
  for i = LIMIT_COUNT + (b - 1) * count + 1, LIMIT_COUNT + b * count do
    if limits[i] == ANY_RISE or before < limits[i] and limits[i] <= after then return true end
  end
  return false
end

-- Records what a budget's spend was when it reached a threshold, with the limit, until a gateway has queued the alerts.
-- `before_name` is 'refused_' if the budget has refused a request instead. A field for each window: the largest spend
-- counts. If no gateway has alerts, it ends after a day without a record.
local function record_crossing(scopes, s, b, limit, before_name)
  local spent = scopes[s][SPENT[b]]
  local owner = s == 1 and '' or s == 2 and scope_field(scopes.key) or 'b' .. scopes.names[s - 2]
  local name = (s > 2 and 'budget_' or '') .. before_name .. LIMITS[BUDGET[b]]
  local field = owner .. '\0' .. name .. '\0' .. exact(scopes[s][WINDOW[b]])
  local known = redis.call('HGET', CROSSINGS, field)
  if known and tonumber(string.match(known, '^%d+')) >= spent then return end
  if not known and redis.call('HLEN', CROSSINGS) >= CROSSINGS_MAX then return end
  redis.call('HSET', CROSSINGS, field, exact(spent) .. ' ' .. exact(limit))
  redis.call('PEXPIRE', CROSSINGS, DAY_MS)
end

-- For each budget the window in which it refused a request because of what is spent, and the cheapest of these
-- requests. Beside the scopes, so that no other script has to read them.
local function refused_field(s, key)
  return 'refused' .. (s == 1 and '' or scope_field(key))
end

local function load_refused(s, key, counter)
  local packed
  if counter then
    packed = redis.call('HGET', COUNTERS, MARKS .. counter)
  else
    packed = redis.call('HGET', SCOPES, refused_field(s, key))
  end
  return packed and cmsgpack.unpack(packed) or {}
end

-- The cheapest request that a budget refused in its window; 0 if it refused none.
local function refused_of(marks, scope, b)
  return marks[2 * b - 1] == scope[WINDOW[b]] and marks[2 * b] or 0
end

-- Adds to `spent` and `held` of each budget of a unit that is still in the reservation's window. Without `limits`,
-- every rise of `spent` is recorded. `owners` as in `correct`.
local function move(reservation, scopes, unit, spent, held, limits, owners)
  for s = owners and 3 or 1, owners and #scopes or 2 do
    local scope, admission, bound = scopes[s], ADMISSION[s], owners and owners[s - 2][2]
    for b = 1, owners and BUDGETS or OWN_BUDGETS do
      local window = bound and bound[b] or not bound and reservation[admission[b]]
      if scope[WINDOW[b]] == window and BUDGET_UNIT[b] == unit then
        local at, held_at = SPENT[b], HELD[b]
        local before, own = scope[at], limits and limits[s]
        -- The figures of a revoked key are deleted before the last late settlement of it can have come.
        scope[at] = max(0, min(AMOUNT_MAX, scope[at] + spent))
        scope[held_at] = scope[held_at] + held
        local is_watched = spent > 0 and (not own or #own > LIMIT_COUNT)
        if is_watched and is_reached(own, b, before, scope[at]) then
          record_crossing(scopes, s, b, own and own[BUDGET[b]] or NONE, '')
        end
      end
    end
  end
end

-- Releases what is held, and corrects `spent` to what was used.
local function free(reservation, scopes, used, limits, owners)
  local is_live = reservation[STATE] == IS_LIVE
  for i = 1, #BUDGET_UNITS do
    local unit = BUDGET_UNITS[i]
    local held = is_live and -unposted(reservation, unit) or 0
    move(reservation, scopes, unit, used[unit] - charged(reservation, unit), held, limits, owners)
  end
  if not is_live then return end
  for s = owners and 3 or 1, owners and #scopes or 2 do scopes[s][LIVE] = scopes[s][LIVE] - 1 end
end

-- Parses a list of figures: whole numbers with commas between them. A list from before a figure existed lacks it; one
-- from a later version may have more, which are kept.
local function load_figures(stored)
  local figures = {}
  for digits in string.gmatch(stored or '', '%-?%d+') do figures[#figures + 1] = tonumber(digits) end
  for i = #figures + 1, FIGURES do figures[i] = 0 end
  return figures
end

local function add_to(totals, sign, figures)
  for i = 1, #figures do totals[i] = sum(totals[i] or 0, sign * figures[i]) end
end

local function figures_text(totals)
  return string.format(string.sub(string.rep(',%.0f', #totals), 2), unpack(totals))
end

local function save_figures(hash, field, totals)
  redis.call('HSET', hash, field, figures_text(totals))
end

local function add_figures(hash, field, sign, figures)
  local totals = load_figures(redis.call('HGET', hash, field))
  add_to(totals, sign, figures)
  save_figures(hash, field, totals)
end

-- In the hash of usage by day, key and series: how many fields were folded into days and months.
local FOLDS = 'folds'

-- A series is made by `usage-series.ts`: model, provider and tags with tabs between them, or the model alone. The hash
-- of usage has them by hour, which is a last part; the figures of a node have not.
local function by_hour(series, admitted)
  return series .. '\t' .. floor(admitted % DAY_MS / HOUR_MS)
end

-- The model and the tags of a series without an hour.
local function parts_of(series)
  return string.match(series, '^[^\t]*'), string.match(series, '^[^\t]*\t[^\t]*\t([^\t]*)') or ''
end

local function usage_field(day, key, series)
  return exact(day) .. '\0' .. key .. '\0' .. series
end

local function count(day, key, series, sign, figures)
  add_figures(USAGE, usage_field(day, key, series), sign, figures)
end

-- Adds to the hour in which a reservation was admitted.
local function count_reservation(reservation, sign, figures)
  local admitted = reservation[ADMITTED]
  count(day_of(admitted), reservation[KEY], by_hour(reservation[SERIES], admitted), sign, figures)
end

local function field_of_node(node, day, key, series)
  return node .. '\0' .. exact(day) .. '\0' .. key .. '\0' .. series
end

-- Adds to the figures of one node; `record` is the node's.
local function count_of_node(node, record, day, key, series, figures)
  add_figures(NODES, field_of_node(node, day, key, series), 1, figures)
  record[NODE_REQUESTS] = sum(record[NODE_REQUESTS], figures[1])
end

-- The charge for a reservation that was never settled.
local function own_charge(reservation, input, cost)
  local model, tags = parts_of(reservation[SERIES])
  local output = reservation[POSTED_OUTPUT]
  return { model = model, tags = tags, estimated = 1, input = input, output = output, cost = cost }
end

local function lost_charge(reservation)
  return own_charge(reservation, max(reservation[POSTED_INPUT], reservation[INPUT]), charged(reservation, MICRO_USD))
end

local function lost_figures(reservation)
  return figures_of(lost_charge(reservation))
end

-- Adds an audit entry. A reservation gets one each time that its cost changes; its last entry counts.
local function audit(id, kind, key, admitted, charge, held)
  local overage = max(0, charge.cost - held)
  redis.call('XADD', AUDIT, 'MAXLEN', '~', AUDIT_MAX, '*', entry_of(id, kind, key, admitted, charge, overage))
end

-- Until then a settlement corrects the charge of a lost reservation.
local function lost_until(reservation)
  return max(now, reservation[ADMITTED]) + LOST_MS
end

local function lose(id, reservation)
  local key = reservation[KEY]
  local scopes = load_scopes(key)
  free(reservation, scopes, amounts_of(reservation, lost_amount))
  save_scopes(key, scopes)
  reservation[STATE], reservation[DUE] = IS_LOST, lost_until(reservation)
  save_reservation(id, reservation)
  local charge = lost_charge(reservation)
  count_reservation(reservation, 1, figures_of(charge))
  audit(id, 'lost', key, reservation[ADMITTED], charge, reservation[RESERVED])
end

local function unclaimed_field(day, key)
  return field_of_node(UNCLAIMED, day, key, '')
end

-- Deletes what is overdue. The charge of a lost reservation stays known as part of a sum.
local function delete(id, reservation)
  if reservation and reservation[STATE] == IS_LOST then
    -- Gateways of an earlier version keep lost ones for an hour.
    local kept = reservation[ADMITTED] + LOST_MS
    if now < kept then return redis.call('ZADD', DEADLINES, kept, id) end
    local field = unclaimed_field(day_of(reservation[ADMITTED]), reservation[KEY])
    add_figures(NODES, field, 1, lost_figures(reservation))
  end
  redis.call('HDEL', RESERVATIONS, id)
  redis.call('ZREM', DEADLINES, id)
end

-- Requests that were admitted so long ago that their lost reservations are deleted: takes what was charged for lost
-- ones of their day and key out of those sums, at most `figures`. Returns what it took.
local function claim(admitted, key, figures)
  local claimed, is_any_left = figures_of({}), false
  claimed[1] = 0
  if now - admitted < LOST_MS - CLOCK_SKEW_MS then return claimed end
  local day = day_of(admitted)
  local field = unclaimed_field(day, key)
  local stored = redis.call('HGET', NODES, field)
  if not stored and day < tonumber(redis.call('HGET', NODES, FOLDED) or 0) then
    field = unclaimed_field(floor(month_start_ms(month_of(admitted)) / DAY_MS), key)
    stored = redis.call('HGET', NODES, field)
  end
  if not stored then return claimed end
  local totals = load_figures(stored)
  for i = 1, #claimed do
    claimed[i] = min(totals[i], figures[i])
    totals[i] = totals[i] - claimed[i]
    is_any_left = is_any_left or totals[i] > 0
  end
  if is_any_left then save_figures(NODES, field, totals) else redis.call('HDEL', NODES, field) end
  return claimed
end
