-- What an organisation and a key have used, hold and have spent, as of now. Ends first what is overdue; changes nothing else.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits
-- outcomes:
--   figures, and as text twelve numbers of the organisation, then of the key: requests tokens live, and window spent held of day, month and total

reap()

local scopes = load_scopes(key)
local reply = { 'figures' }
for s = 1, 2 do
  local scope = scopes[s]
  advance(scope, limits[s])
  reply[#reply + 1] = exact(ceil(scope[REQUESTS]))
  reply[#reply + 1] = exact(ceil(scope[TOKENS]))
  for i = LIVE, TOTAL + HELD do reply[#reply + 1] = exact(scope[i]) end
end
return reply
