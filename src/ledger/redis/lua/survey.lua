-- Reads in one call which figures of a node Redis has, for many organisations.
--
-- keys: for each organisation scopes nodes
-- arguments: node
-- Returns three texts for each: epoch given requests (given: as `enter` returns it; -2: Redis has nothing of the node
-- in this epoch, or the keys cannot be read)

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

for i = 1, #KEYS, 2 do
  local epoch = tonumber(read('HGET', KEYS[i], 'epoch') or 0)
  local packed = read('HGET', KEYS[i + 1], node)
  local record = packed and cmsgpack.unpack(packed) or {}
  local isIn = (record[1] == VERSION or record[1] == SUMS_VERSION) and record[NODE_EPOCH] == epoch
  text(epoch)
  text(isIn and record[NODE_GIVEN] or UNREAD)
  text(isIn and record[NODE_REQUESTS] or 0)
end
return reply
