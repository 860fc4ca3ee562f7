-- What is left of the limits of providers and targets, for all nodes: `common-room.ts` is the same for one node.
-- KEYS: one hash for each meter, and of `take` for organisations one sorted set for each: the places in their turns
-- (`organization-turns.ts`). ARGV: the operation, the holder, 1 for the lower class (of `report`: for a refusal), the
-- number of meters, for each meter its kind, its limit, what is needed or given or held or left, what is spare (of
-- `report`: for how long nothing comes back), turns that the lower class has had, what one request takes; and for each
-- organisation its name, its weight, and for how long it has waited.

local HELD_MS, WAITING_MS, LOOK_MS, LOW_TURNS, BUCKET_SHARE = 20000, 300, 25, 10, 6
local EARLY_MAX, TURN_MS, TURNS_KEPT_MS, EARLY_PLACES, EARLY_RATE, PATIENCE_MS = 3, 500, 10000, 50, 3000, 100
local NEARLY = 0.000001
local REFUSED_SHARE, REFUSED_MS, SHARE_MIN = 0.8, 2000, 0.05
local REGROWTH, NEAR_REGROWTH, NEAR, BURST_SHARE = 0.000003, 0.0000004, 0.03, 0.01
-- Longer than a month, after which nothing of a hash counts.
local KEPT_MS = 32 * 86400000

local operation, holder, is_low = ARGV[1], 'h:' .. ARGV[2], ARGV[3] == '1'
-- Of the turns of the class: who waits, by process and organisation, and the least place.
local class = is_low and 'l:' or 'u:'
local least_place = class .. '@'

-- What is no number, also NaN, is 0: it must not spoil what is left for all.
local function number(value)
  local found = tonumber(value or '0') or 0
  return found == found and found or 0
end

local METER_WORDS, TURN_WORDS = 6, 3
local meter_count = number(ARGV[4])
local organizations, is_named = {}, {}
for at = 4 + meter_count * METER_WORDS, #ARGV - 1, TURN_WORDS do
  local name = ARGV[at + 1]
  organizations[#organizations + 1] = { name = name, weight = number(ARGV[at + 2]), since = now - number(ARGV[at + 3]) }
  is_named[name] = true
end

-- The days since 1970 of the first day of the month of a day; after Howard Hinnant's civil_from_days.
local function month_start(day)
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  return day - (doy - math.floor((153 * mp + 2) / 5))
end

local function window_of(kind)
  local day = math.floor(now / 86400000)
  if kind == 'day' then return day * 86400000 end
  if kind == 'month' then return month_start(day) * 86400000 end
  return 1
end

local function window_end(kind)
  local day = math.floor(now / 86400000)
  if kind == 'day' then return (day + 1) * 86400000 end
  if kind == 'month' then return month_start(month_start(day) + 31) * 86400000 end
  return now + KEPT_MS
end

local function grown(share, refused_share, ms)
  local low, high = refused_share * (1 - NEAR), refused_share * (1 + NEAR)
  local to_low = math.min(ms, math.max(0, low - share) / REGROWTH)
  local near = share + to_low * REGROWTH
  local to_high = math.min(ms - to_low, math.max(0, high - near) / NEAR_REGROWTH)
  return math.min(1, near + to_high * NEAR_REGROWTH + (ms - to_low - to_high) * REGROWTH)
end

local function state_of(i)
  local key = KEYS[i]
  local at = 4 + (i - 1) * METER_WORDS
  local meter = {
    key = key,
    kind = ARGV[at + 1],
    limit = number(ARGV[at + 2]),
    amount = number(ARGV[at + 3]),
    spare = number(ARGV[at + 4]),
    lows = number(ARGV[at + 5]),
    each = number(ARGV[at + 6]),
    turns_key = KEYS[meter_count + i],
    others = {},
    holders = {},
    held = 0,
  }
  local found = redis.call('HGETALL', key)
  local fields = {}
  for f = 1, #found, 2 do fields[found[f]] = found[f + 1] end
  meter.waiting, meter.urgent, meter.turns = number(fields.waiting), number(fields.urgent), number(fields.turns)
  meter.least_place = number(fields[least_place])
  for name, value in pairs(fields) do
    if string.sub(name, 1, 2) == class and name ~= least_place then
      local until_ms, since = string.match(value, '^(%d+) (%d+)$')
      local other, organization = string.match(name, '^..(%S+) (.*)$')
      if not until_ms or not other or number(until_ms) <= now then redis.call('HDEL', key, name)
      elseif other ~= ARGV[2] then meter.others[#meter.others + 1] = { name = organization, since = number(since) }
      elseif is_named[organization] then meter.is_queued = true end
    end
  end
  if meter.kind == 'rate' then
    meter.most = math.max(1, meter.limit / BUCKET_SHARE)
    meter.per_ms = meter.limit / 60000
    local level = fields.level and number(fields.level) or meter.most
    local at = number(fields.at or tostring(now))
    meter.closed, meter.refused = number(fields.closed), number(fields.refused)
    meter.share, meter.had_share = number(fields.share or '1'), fields.share ~= nil
    local since = math.max(0, now - math.max(at, meter.closed))
    if meter.share < 1 then meter.most = math.max(1, meter.limit * BURST_SHARE) end
    meter.level = math.min(meter.most, level + since * meter.per_ms * meter.share)
    meter.refused_share = number(fields.refused_share)
    if meter.share < 1 then meter.share = grown(meter.share, meter.refused_share, math.max(0, now - at)) end
  elseif meter.kind == 'concurrency' then
    for name, value in pairs(fields) do
      if string.sub(name, 1, 2) == 'h:' then
        local amount, until_ms = string.match(value, '^(%d+) (%d+)$')
        if amount and number(until_ms) > now then
          meter.holders[name] = number(amount)
          meter.held = meter.held + number(amount)
        else
          redis.call('HDEL', key, name)
        end
      end
    end
  else
    meter.window = window_of(meter.kind)
    meter.used = number(fields.window) == meter.window and number(fields.used) or 0
  end
  return meter
end

local function hold(meter, amount)
  if amount <= 0 then
    redis.call('HDEL', meter.key, holder)
  else
    redis.call('HSET', meter.key, holder, string.format('%d %d', amount, now + HELD_MS))
  end
end

local function save(meter)
  if meter.kind == 'rate' then
    redis.call('HSET', meter.key, 'level', string.format('%.6f', meter.level), 'at', string.format('%d', now))
    if meter.share < 1 then redis.call('HSET', meter.key, 'share', string.format('%.6f', meter.share))
    elseif meter.had_share then redis.call('HDEL', meter.key, 'share', 'refused_share') end
  elseif meter.kind ~= 'concurrency' then
    redis.call('HSET', meter.key, 'window', string.format('%d', meter.window), 'used', string.format('%d', meter.used))
  end
  if meter.kind ~= 'total' then redis.call('PEXPIRE', meter.key, KEPT_MS) end
end

local function wait_for(meter)
  if meter.amount <= 0 then return 0 end
  if meter.kind == 'rate' then
    local wanted = math.min(meter.amount, meter.most)
    if meter.level + 0.000001 >= wanted then return 0 end
    local closed = math.max(0, meter.closed - now)
    return math.max(1, math.ceil(closed + (wanted - meter.level) / (meter.per_ms * meter.share)))
  end
  if meter.kind == 'concurrency' then
    return meter.held + meter.amount <= meter.limit and 0 or LOOK_MS
  end
  return meter.used + meter.amount <= meter.limit and 0 or math.max(1, window_end(meter.kind) - now)
end

local function grant(meter)
  local free
  if meter.kind == 'rate' then free = meter.level - meter.amount
  elseif meter.kind == 'concurrency' then free = meter.limit - meter.held - meter.amount
  else free = meter.limit - meter.used - meter.amount end
  local more = math.max(0, math.min(meter.spare, math.floor(free)))
  if meter.amount == 0 and now < meter.waiting then more = 0 end
  local amount = meter.amount + more
  if meter.kind == 'rate' then meter.level = meter.level - amount
  elseif meter.kind == 'concurrency' then
    hold(meter, (meter.holders[holder] or 0) + amount)
    meter.held = meter.held + amount
  else meter.used = meter.used + amount end
  save(meter)
  return amount
end

local function left_of(meter)
  if meter.kind == 'rate' then return meter.level / meter.most end
  if meter.limit <= 0 then return 0 end
  return 1 - (meter.kind == 'concurrency' and meter.held or meter.used) / meter.limit
end

local meters = {}
for i = 1, meter_count do meters[i] = state_of(i) end

-- The wait, which organisation had the turn (0: none), then of each meter what is granted, or else its own
-- wait, and what is left.
local function reply(wait, turn, granted)
  local words = { string.format('%d', wait), string.format('%d', turn) }
  for i, meter in ipairs(meters) do
    words[#words + 1] = string.format('%d', granted[i] or 0)
    words[#words + 1] = string.format('%.3f', math.max(0, left_of(meter)))
  end
  return words
end

if operation == 'give' then
  for _, meter in ipairs(meters) do
    if meter.kind == 'rate' then meter.level = math.min(meter.most, meter.level + meter.amount)
    elseif meter.kind == 'concurrency' then hold(meter, (meter.holders[holder] or 0) - meter.amount)
    else meter.used = math.max(0, meter.used - meter.amount) end
    save(meter)
  end
  return {}
end

if operation == 'renew' then
  for _, meter in ipairs(meters) do
    hold(meter, meter.amount)
    save(meter)
  end
  return {}
end

if operation == 'report' then
  for _, meter in ipairs(meters) do
    meter.level = math.min(meter.level, meter.amount)
    local closed = math.max(meter.closed, now + meter.spare)
    redis.call('HSET', meter.key, 'closed', string.format('%d', closed))
    if is_low and now >= meter.refused + REFUSED_MS then
      local part = meter.share < meter.refused_share and (1 + REFUSED_SHARE) / 2 or 1
      redis.call('HSET', meter.key, 'refused', string.format('%d', now),
        'refused_share', string.format('%.6f', meter.share * part))
      meter.share = math.max(SHARE_MIN, meter.share * REFUSED_SHARE)
    end
    save(meter)
  end
  return {}
end

local function place_of(meter, organization)
  return math.max(meter.least_place, number(redis.call('ZSCORE', meter.turns_key, organization) or nil))
end

-- Which organisation is furthest back, and whether it lets another pass.
local function next_turn(meter)
  local next
  local others_place = math.huge
  for i, organization in ipairs(organizations) do
    local place = place_of(meter, organization.name)
    if not next or place < next.place then
      if next then others_place = math.min(others_place, next.place) end
      next = { index = i, place = place, name = organization.name, weight = organization.weight }
      next.since = organization.since
    else
      others_place = math.min(others_place, place)
    end
  end
  if not next then return nil end
  local early = math.floor(meter.limit / (meter.kind == 'concurrency' and EARLY_PLACES or EARLY_RATE))
  for _, other in ipairs(meter.others) do
    local place = place_of(meter, other.name)
    others_place = math.min(others_place, place)
    if other.name ~= next.name then
      if place + early / next.weight < next.place - NEARLY then next.lets_pass = true end
    elseif other.since + (early > 0 and PATIENCE_MS or 0) < next.since then
      next.lets_pass = true
    end
  end
  next.others_place = others_place
  next.field = class .. ARGV[2] .. ' ' .. next.name
  return next
end

local function move_on(meter, next, count)
  redis.call('HDEL', meter.key, next.field)
  local least = math.max(meter.least_place, math.min(next.others_place, next.place + (count - 1) / next.weight))
  redis.call('HSET', meter.key, least_place, string.format('%.6f', least))
  redis.call('ZADD', meter.turns_key, string.format('%.6f', next.place + count / next.weight), next.name)
  redis.call('ZREMRANGEBYSCORE', meter.turns_key, '-inf', string.format('%.6f', least))
  redis.call('PEXPIRE', meter.turns_key, TURNS_KEPT_MS)
end

local wait, queued = 0, nil
for _, meter in ipairs(meters) do
  meter.turns = math.max(-EARLY_MAX * LOW_TURNS, meter.turns - meter.lows * LOW_TURNS)
  meter.lacks = wait_for(meter)
  wait = math.max(wait, meter.lacks)
  if meter.amount > 0 then
    local is_first = queued == nil or (meter.is_queued and not queued.is_queued)
    if is_first or (meter.lacks > queued.lacks and not queued.is_queued) then queued = meter end
  end
end
if wait == 0 and is_low then
  for _, meter in ipairs(meters) do
    if now < meter.urgent and meter.turns < LOW_TURNS - 1 then wait = LOOK_MS end
  end
end
local next = queued and #organizations > 0 and next_turn(queued) or nil
if wait == 0 and next and next.lets_pass then wait = LOOK_MS end
if wait > 0 then
  for _, meter in ipairs(meters) do
    if meter.holders[holder] then hold(meter, meter.holders[holder]) end
    redis.call('HSET', meter.key, 'waiting', string.format('%d', now + WAITING_MS))
    if not is_low then
      if now >= meter.urgent then meter.turns = 0 end
      redis.call('HSET', meter.key, 'urgent', string.format('%d', now + WAITING_MS))
    end
    redis.call('HSET', meter.key, 'turns', string.format('%d', meter.turns))
    save(meter)
  end
  if next then redis.call('HSET', queued.key, next.field, string.format('%d %d', now + TURN_MS, next.since)) end
  local waits = {}
  for i, meter in ipairs(meters) do waits[i] = math.min(meter.lacks, KEPT_MS) end
  return reply(math.min(wait, KEPT_MS), 0, waits)
end

-- What is for requests to come is no turn.
for _, meter in ipairs(queued and meters or {}) do
  if now < meter.urgent then
    local turns = is_low and meter.turns - (LOW_TURNS - 1) or math.min(LOW_TURNS - 1, meter.turns + 1)
    redis.call('HSET', meter.key, 'turns', string.format('%d', turns))
  end
end

local granted = {}
for i, meter in ipairs(meters) do granted[i] = math.floor(grant(meter)) end
if next then
  for i, meter in ipairs(meters) do
    if meter == queued then move_on(meter, next, meter.each > 0 and math.max(1, granted[i] / meter.each) or 1) end
  end
end
return reply(0, next and next.index or 0, granted)
