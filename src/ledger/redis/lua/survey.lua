-- Reads the state of many organisations in one call: whether a reservation is overdue, and which figures of a node
-- Redis has.
--
-- keys: for each organisation scopes deadlines nodes ends
-- arguments: node
-- Returns four texts for each: overdue epoch given requests (given: as `enter` returns it; -2: Redis has nothing of the
-- node in this epoch, or the keys cannot be read)

local UNREAD = -2
local node = ARGV[1]
local reply = {}

-- A problem with the keys of one organisation must not stop the survey.
local function read(...)
  local value = redis.pcall(...)
  return not (type(value) == 'table' and value.err) and value or nil
end

local function text(value)
  reply[#reply + 1] = string.format('%.0f', value)
end

-- Counters of budgets are looked at only if one of the organisations has any: one command for all.
local ends = {}
for i = 4, #KEYS, 4 do ends[#ends + 1] = KEYS[i] end
local has_counters = #ends > 0 and redis.call('EXISTS', unpack(ends)) > 0

for i = 1, #KEYS, 4 do
  local due = read('ZRANGEBYSCORE', KEYS[i + 1], '-inf', now, 'LIMIT', 0, 1)
  if has_counters and due and #due == 0 then due = read('ZRANGEBYSCORE', KEYS[i + 3], '-inf', now, 'LIMIT', 0, 1) end
  local epoch = tonumber(read('HGET', KEYS[i], 'epoch') or 0)
  local packed = read('HGET', KEYS[i + 2], node)
  local record = packed and cmsgpack.unpack(packed) or {}
  local isIn = (record[1] == VERSION or record[1] == SUMS_VERSION) and record[NODE_EPOCH] == epoch
  text((not due or #due > 0) and 1 or 0)
  text(epoch)
  text(isIn and record[NODE_GIVEN] or UNREAD)
  text(isIn and record[NODE_REQUESTS] or 0)
end
return reply
