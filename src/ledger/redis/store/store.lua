-- What every verb shares: the clock, how scopes and reservations are stored, and what may happen to them. Stands before each verb's own
-- text; `embedded/scope-moves.ts` and `embedded/memory-store.ts` are the same, line by line.
--
-- Numbers: no amount is ever concatenated, formatted with %d or %s, or encoded by cjson: Lua shortens them to 14 digits. They travel as
-- arguments of redis.call, in cmsgpack, or through %.0f, all of which are exact to 2^53.

local SCOPES, RESERVATIONS, DEADLINES, AUDIT, USAGE, NODES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- A scope: { version, at, requests, tokens, live, then window, spent and held of day, month and total, then of the meters of requests and
-- tokens when each was drained last, and how many times each has stood empty }. The last four are absent in older records.
-- Beside the scopes, in the same hash: the organisation's life, and the one that gateways of an earlier version know. They take a new life for
-- a total loss, so theirs stays as it is while some of them still run.
local LIFE, LEGACY_LIFE = 'epoch', 'life'
local AT, REQUESTS, TOKENS, LIVE = 2, 3, 4, 5
local DAY, MONTH, TOTAL = 6, 9, 12
local METERS = { REQUESTS, TOKENS }
local DRAINED = { [REQUESTS] = 15, [TOKENS] = 16 }
local IDLED = { [REQUESTS] = 17, [TOKENS] = 18 }
local BUDGETS = { DAY, MONTH, TOTAL }
local SPENT, HELD = 1, 2

-- A reservation: { version, state, due, admitted, key, model, input, accounted, held, posted input, posted output, posted cost, floor,
-- then the windows of the organisation's budgets and of the key's, then how often their meters of requests and tokens had stood empty when it
-- was admitted, -1 if there was no limit; absent in older records }. A settled or cancelled one is cut after `due`.
local STATE, DUE, ADMITTED, KEY, MODEL, INPUT, ACCOUNTED = 2, 3, 4, 5, 6, 7, 8
local RESERVED, POSTED_INPUT, POSTED_OUTPUT, POSTED, FLOOR, WINDOWS, CHARGED = 9, 10, 11, 12, 13, 13, 19
local IS_LIVE, IS_SETTLED, IS_LOST, IS_CANCELLED = 1, 2, 3, 4

-- What Redis has counted of each node, so that the node can compare it with its own log: a record { version, life, given, requests, legacy }
-- under the node's id, and its figures by day, key and model. `given` counts the rows that the node has given back to this life; a node's
-- settlements count only after it has given back all. `legacy`: figures of before these records are in the budgets, and not in these figures.
local NODE_LIFE, NODE_GIVEN, NODE_REQUESTS, NODE_LEGACY = 2, 3, 4, 5
local ALL_GIVEN = -1
-- Beside them, the day before which they may have been added up by month.
local FOLDED = 'folded'

-- Limits of one scope as arguments: requests, tokens, concurrent requests, day, month, total; -1 is none.
local NONE = -1
local MINUTE_MS, DAY_MS, CONCURRENT_WAIT_MS = 60000, 86400000, 1000
local HELD_WAIT_MS_MIN, HELD_WAIT_MS_MAX = 1000, 10000
local REAPED_MAX, AUDIT_MAX = 1000, 100000
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

-- A number of an answer as text: ioredis reads integers within 57 of 2^53 wrongly.
local function exact(value)
  return string.format('%.0f', value)
end

-- Days since 1970, and months since January 1970 (the civil calendar counted from March, in eras of 400 years).
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

-- When the organisation's figures began. It is lost with them: who knows another life has charges that these lack. A new life is later
-- than every life that the caller knows, also if the clock went back.
local function begin_life(known)
  local life = max(now, known + 1)
  redis.call('HSET', SCOPES, LIFE, life)
  return life
end

local function this_life(known)
  local life = tonumber(redis.call('HGET', SCOPES, LIFE) or 0)
  return life == 0 and begin_life(known) or life
end

local function load_node(node)
  local packed = redis.call('HGET', NODES, node)
  if not packed then return nil end
  local record = cmsgpack.unpack(packed)
  if record[1] ~= VERSION then error({ err = 'VERSION of a node is not known' }) end
  return record
end

local function save_node(node, record)
  redis.call('HSET', NODES, node, cmsgpack.pack(record))
end

local function load_scope(packed)
  if packed then
    local scope = cmsgpack.unpack(packed)
    if scope[1] ~= VERSION then error({ err = 'VERSION of a scope is not known' }) end
    if #scope < IDLED[TOKENS] then
      for i, value in ipairs({ scope[AT], scope[AT], 0, 0 }) do scope[TOTAL + HELD + i] = value end
    end
    return scope
  end
  return { VERSION, now, 0, 0, 0, day_of(now), 0, 0, month_of(now), 0, 0, 0, 0, 0, now, now, 0, 0 }
end

local function load_scopes(key)
  local packed = redis.call('HMGET', SCOPES, '', scope_field(key))
  return { load_scope(packed[1]), load_scope(packed[2]) }
end

local function save_scopes(key, scopes)
  redis.call('HSET', SCOPES, '', cmsgpack.pack(scopes[1]), scope_field(key), cmsgpack.pack(scopes[2]))
end

local function load_reservation(id)
  local packed = redis.call('HGET', RESERVATIONS, id)
  if not packed then return nil end
  local reservation = cmsgpack.unpack(packed)
  if reservation[1] ~= VERSION then error({ err = 'VERSION of a reservation is not known' }) end
  return reservation
end

local function save_reservation(id, reservation)
  redis.call('HSET', RESERVATIONS, id, cmsgpack.pack(reservation))
  redis.call('ZADD', DEADLINES, reservation[DUE], id)
end

local function bury(id, state)
  save_reservation(id, { VERSION, state, now + ENDED_MS })
end

-- Lets time pass for a meter. Without a limit it is left alone, its clock included: a request from before a reload that added the limit must
-- not wipe out what was counted since.
local function drain(scope, meter, per_minute)
  if per_minute == NONE then return end
  local elapsed = max(0, now - scope[DRAINED[meter]])
  scope[DRAINED[meter]] = now
  local left = scope[meter] - per_minute * elapsed / MINUTE_MS
  if left < 0 then scope[IDLED[meter]] = scope[IDLED[meter]] + 1 end
  scope[meter] = max(0, left)
end

local function roll(scope, budget, window)
  if window <= scope[budget] then return end
  scope[budget], scope[budget + SPENT], scope[budget + HELD] = window, 0, 0
end

local function advance(scope, limits)
  drain(scope, REQUESTS, limits[1])
  drain(scope, TOKENS, limits[2])
  scope[AT] = now
  if not trusted then return end
  roll(scope, DAY, day_of(now))
  roll(scope, MONTH, month_of(now))
end

local function use(scope, limits, requests, tokens)
  if limits[1] ~= NONE then scope[REQUESTS] = scope[REQUESTS] + requests end
  if limits[2] ~= NONE then scope[TOKENS] = scope[TOKENS] + tokens end
end

-- How often a meter had stood empty when a reservation was admitted; -1 if nothing was charged because there was no limit.
local function idled_before(scope, limits, i)
  return limits[i] == NONE and -1 or scope[IDLED[METERS[i]]]
end

-- Corrects what an admission charged a meter to what was really used. What was not used comes back in full unless the bucket has stood empty
-- since: everything that drained was charged to somebody. After that only what of the charge cannot have drained yet comes back, because
-- capacity that went by unused is not handed out later. What was used beyond the charge is added.
local function correct(reservation, scopes, limits, i, charge, used)
  local meter, age = METERS[i], max(0, now - reservation[ADMITTED])
  for s = 1, 2 do
    local scope, per_minute, before = scopes[s], limits[s][i], reservation[CHARGED + (s - 1) * 2 + i]
    local back = charge
    if before == -1 then
      back = 0
    elseif before ~= scope[IDLED[meter]] then
      back = max(0, charge - per_minute * age / MINUTE_MS)
    end
    if per_minute ~= NONE then scope[meter] = max(0, scope[meter] - min(charge - used, back)) end
  end
end

local function most(limits, i)
  return limits[3 + i] == NONE and AMOUNT_MAX or limits[3 + i]
end

local function has_room(scope, budget, limit, cost)
  return cost <= limit - scope[budget + SPENT] - scope[budget + HELD]
end

-- What is in `spent` for a reservation: its progress; of a lost one, its floor at least.
local function charged(reservation)
  if reservation[STATE] == IS_LOST then return max(reservation[POSTED], reservation[FLOOR]) end
  return reservation[POSTED]
end

local function unposted(reservation)
  return max(0, reservation[RESERVED] - reservation[POSTED])
end

-- Moves money in every budget that is still in the reservation's window.
local function move(reservation, scopes, spent, held)
  for s = 1, 2 do
    for b = 1, 3 do
      local scope, budget = scopes[s], BUDGETS[b]
      if scope[budget] == reservation[WINDOWS + (s - 1) * 3 + b] then
        scope[budget + SPENT] = sum(scope[budget + SPENT], spent)
        scope[budget + HELD] = scope[budget + HELD] + held
      end
    end
  end
end

-- Lets go of what is held, and corrects what is spent to what it was.
local function free(reservation, scopes, cost)
  local is_live = reservation[STATE] == IS_LIVE
  move(reservation, scopes, cost - charged(reservation), is_live and -unposted(reservation) or 0)
  if not is_live then return end
  for s = 1, 2 do scopes[s][LIVE] = scopes[s][LIVE] - 1 end
end

local function correct_tokens(reservation, scopes, limits, tokens)
  correct(reservation, scopes, limits, 2, reservation[ACCOUNTED], tokens)
end

-- Seven whole numbers with commas between them.
local function add_figures(hash, field, sign, figures)
  local totals = { 0, 0, 0, 0, 0, 0, 0 }
  local stored = redis.call('HGET', hash, field)
  if stored then
    local i = 0
    for digits in string.gmatch(stored, '%-?%d+') do
      i = i + 1
      totals[i] = tonumber(digits)
    end
  end
  for i = 1, 7 do totals[i] = sum(totals[i], sign * figures[i]) end
  redis.call('HSET', hash, field, string.format('%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f', unpack(totals)))
end

-- Usage by day, key and model. Beside it, how many fields were folded into months.
local FOLDS = 'folds'

local function count(day, key, model, sign, figures)
  add_figures(USAGE, string.format('%.0f', day) .. '\0' .. key .. '\0' .. model, sign, figures)
end

local function field_of_node(node, day, key, model)
  return node .. '\0' .. exact(day) .. '\0' .. key .. '\0' .. model
end

-- The same, as what one node served; `record` is the node's.
local function count_of_node(node, record, day, key, model, figures)
  add_figures(NODES, field_of_node(node, day, key, model), 1, figures)
  record[NODE_REQUESTS] = sum(record[NODE_REQUESTS], figures[1])
end

local function lost_figures(reservation)
  local input = max(reservation[POSTED_INPUT], reservation[INPUT])
  return { 1, 1, input, 0, reservation[POSTED_OUTPUT], 0, charged(reservation) }
end

-- One entry each time that what a reservation cost becomes known: the last one of an id counts.
local function audit(id, kind, outcome, key, model, provider, admitted, figures, held)
  redis.call('XADD', AUDIT, 'MAXLEN', '~', AUDIT_MAX, '*', 'id', id, 'kind', kind, 'outcome', outcome, 'key', key, 'model', model,
    'provider', provider, 'admitted', admitted, 'estimated', figures[2], 'input', figures[3], 'cached', figures[4], 'output', figures[5], 'images', figures[6],
    'cost', figures[7], 'overage', max(0, figures[7] - held))
end

local function lose(id, reservation)
  local key = reservation[KEY]
  local scopes = load_scopes(key)
  free(reservation, scopes, max(reservation[POSTED], reservation[FLOOR]))
  save_scopes(key, scopes)
  reservation[STATE], reservation[DUE] = IS_LOST, now + LOST_MS
  save_reservation(id, reservation)
  local figures = lost_figures(reservation)
  count(day_of(reservation[ADMITTED]), key, reservation[MODEL], 1, figures)
  audit(id, 'lost', '', key, reservation[MODEL], '', reservation[ADMITTED], figures, reservation[RESERVED])
end

-- Ends what is overdue: a live reservation is lost, an ended one is forgotten.
local function reap()
  local due = redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', now, 'LIMIT', 0, REAPED_MAX)
  for _, id in ipairs(due) do
    local reservation = load_reservation(id)
    if reservation and reservation[STATE] == IS_LIVE then
      lose(id, reservation)
    else
      redis.call('HDEL', RESERVATIONS, id)
      redis.call('ZREM', DEADLINES, id)
    end
  end
  return #due
end
