-- Returns what an organisation and a key have used, hold and have spent, as of now. First ends overdue reservations;
-- changes nothing else.
--
-- keys: scopes reservations deadlines audit usage nodes crossings
-- arguments: id witness key organizationLimits keyLimits
-- outcomes:
--   figures, and as text for the organisation, then for the key: what is used of each rate, how many reservations are
--     live, and window, spent, held and refused of each budget

reap()

local scopes = load_scopes(key)
advance(scopes, limits)
local reply = { 'figures' }
for s = 1, 2 do
  local scope, marks = scopes[s], load_refused(s, key)
  for r = 1, RATES do reply[#reply + 1] = exact(ceil(scope[USED[r]])) end
  reply[#reply + 1] = exact(scope[LIVE])
  for b = 1, BUDGETS do
    reply[#reply + 1] = exact(scope[WINDOW[b]])
    reply[#reply + 1] = exact(scope[SPENT[b]])
    reply[#reply + 1] = exact(scope[HELD[b]])
    reply[#reply + 1] = exact(refused_of(marks, scope, b))
  end
end
return reply
