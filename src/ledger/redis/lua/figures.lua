-- Returns what an organisation and a key have used, hold and have spent, as of now. First ends overdue reservations;
-- changes nothing else.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: id witness key organizationLimits keyLimits budgets
-- outcomes:
--   figures, and as text for the organisation, then for the key: what is used of each rate, how many reservations are
--     live, and window, spent, held and refused of each budget; then the same for each counter, the ends of its
--     windows, and until when it is kept

reap()

local scopes = load_scopes(key)
advance(scopes, limits)
local account, kept = { scopes = scopes, limits = limits }, {}
if given then
  add_counters(account, given)
  for name, counter in pairs(counters) do kept[name] = counter.kept end
  advance_counters(account.scopes, limits, account)
end
scopes = account.scopes
local reply = { 'figures' }
for s = 1, #scopes do
  local counter = s > 2 and scopes.names[s - 2]
  local scope, marks = scopes[s], load_refused(s, key, counter)
  for r = 1, RATES do reply[#reply + 1] = exact(ceil(scope[USED[r]])) end
  reply[#reply + 1] = exact(scope[LIVE])
  for b = 1, BUDGETS do
    reply[#reply + 1] = exact(scope[WINDOW[b]])
    reply[#reply + 1] = exact(scope[SPENT[b]])
    reply[#reply + 1] = exact(scope[HELD[b]])
    reply[#reply + 1] = exact(refused_of(marks, scope, b))
  end
  for b = 1, counter and BUDGETS or 0 do reply[#reply + 1] = exact(counters[counter].ends[b]) end
  if counter then reply[#reply + 1] = exact(kept[counter]) end
end
return reply
