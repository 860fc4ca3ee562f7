-- Sets back to now the windows of an organisation and of one key that lie ahead, with what was spent in the current
-- ones: one list of amounts for each, in the order of the budgets.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: witness key organizationSpent keySpent
-- outcomes:
--   reset count
--   disagree   (this clock and the caller's are more than a minute apart)

if not is_trusted() then return { 'disagree' } end
local scopes = load_scopes(key)
local spent = { organization_spent, key_spent }
local count = 0
for s = 1, 2 do
  local scope, is_set = scopes[s], {}
  for b = 1, OWN_BUDGETS do
    local period = PERIOD[b]
    if scope[WINDOW[b]] > CURRENT[period] then
      scope[WINDOW[b]], scope[SPENT[b]], scope[HELD[b]] = CURRENT[period], amount(spent[s][b]), 0
      if not is_set[period] then count = count + 1 end
      is_set[period] = true
    end
  end
end
if count > 0 then
  save_scopes(key, scopes)
  redis.call('HDEL', SCOPES, refused_field(1, key), refused_field(2, key))
end
return { 'reset', count }
