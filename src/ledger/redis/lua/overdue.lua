-- Finds organisations with an overdue reservation, of many in one call.
--
-- keys: the deadlines of all organisations, then the ends of their counters
-- Returns the place of each that has one, or whose keys cannot be read, from 1 on.

local count = #KEYS / 2
local is_due, found = {}, {}
for half = 0, 1 do
  local keys = {}
  for i = 1, count do keys[i] = KEYS[half * count + i] end
  -- Most have no reservation: one command for all.
  if redis.call('EXISTS', unpack(keys)) > 0 then
    for i, key in ipairs(keys) do
      -- A problem with the keys of one organisation must not stop the others.
      local due = redis.pcall('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 1)
      if due.err or #due > 0 then is_due[i] = true end
    end
  end
end
for i = 1, count do
  if is_due[i] then found[#found + 1] = i end
end
return found
