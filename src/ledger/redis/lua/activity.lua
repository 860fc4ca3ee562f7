-- Returns when some keys of an organisation were last used, and what they spent and hold in their current day.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: listed
-- outcomes:
--   activity, and as text for each of the keys: the time of its last use, 0 if it was never used, then window, spent
--     and held of its budget of a day

local fields = {}
for i = 1, #listed do fields[i] = scope_field(listed[i]) end
local packed = redis.call('HMGET', SCOPES, unpack(fields))
local reply = { 'activity' }
for i = 1, #listed do
  local scope = load_scope(packed[i])
  reply[#reply + 1] = exact(packed[i] and scope[AT] or 0)
  for b = 1, BUDGETS do
    if PERIOD[b] == DAY and BUDGET_UNIT[b] == MICRO_USD then
      reply[#reply + 1] = exact(scope[WINDOW[b]])
      reply[#reply + 1] = exact(scope[SPENT[b]])
      reply[#reply + 1] = exact(scope[HELD[b]])
      break
    end
  end
end
return reply
