-- Frees what is held; what was posted stays spent, and no floor is charged. An unknown id is barred, so that a reserve
-- that is still on its way is refused.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits
-- outcomes:
--   cancelled
--   ended   (settled or cancelled before)

local reservation = load_reservation(id)
if not reservation then
  bury(id, IS_CANCELLED)
  return { 'cancelled' }
end
if reservation[STATE] ~= IS_LIVE and reservation[STATE] ~= IS_LOST then return { 'ended' } end

local scopes = load_scopes(key)
advance(scopes, limits)
local kind = 'cancelled'
if reservation[STATE] == IS_LOST then
  kind = 'withdrawn'
  count(day_of(reservation[ADMITTED]), key, reservation[MODEL], -1, lost_figures(reservation))
end
-- The progress is what was used; the request itself was not made.
local used = amounts_of(reservation, posted)
used[REQUESTS] = 0
free(reservation, scopes, used)
correct(reservation, scopes, limits, used)
save_scopes(key, scopes)
bury(id, IS_CANCELLED)

local charge = own_charge(reservation, reservation[POSTED_INPUT], reservation[POSTED])
if charge.cost > 0 then count(day_of(reservation[ADMITTED]), key, charge.model, 1, figures_of(charge)) end
audit(id, kind, key, reservation[ADMITTED], charge, reservation[RESERVED])
return { 'cancelled' }
