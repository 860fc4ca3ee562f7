-- Releases what is held; what was posted stays spent, and no floor is charged. An unknown id is barred, so that a
-- reserve call of this turn that arrives later is rejected. A reservation of a later turn stays.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: id witness key organizationLimits keyLimits budgets turn
-- outcomes:
--   cancelled
--   ended   (settled or cancelled before)

local reservation = load_reservation(id)
if not reservation then
  bury(id, IS_CANCELLED, turn)
  return { 'cancelled' }
end
if reservation[STATE] ~= IS_LIVE and reservation[STATE] ~= IS_LOST then return { 'ended' } end
if (reservation[TURN] or 0) > turn then return { 'ended' } end

local scopes = load_scopes(key)
advance(scopes, limits)
local kind = 'cancelled'
if reservation[STATE] == IS_LOST then
  kind = 'withdrawn'
  count_reservation(reservation, -1, lost_figures(reservation))
end
-- The posted progress was used; the request itself does not count.
local used = amounts_of(reservation, posted)
used[REQUESTS] = 0
free(reservation, scopes, used, limits)
correct(reservation, scopes, limits, used)
local hold = (reservation[HAS_COUNTERS] or 0) > 0 and load_hold(id)
if hold then
  local account = { scopes = scopes, limits = limits }
  if given then add_counters(account, given) end
  end_hold(hold, used, account)
  drop_holds({ id })
  save_counters()
end
save_scopes(key, scopes)
bury(id, IS_CANCELLED, turn)

local charge = own_charge(reservation, reservation[POSTED_INPUT], reservation[POSTED])
if charge.cost > 0 then count_reservation(reservation, 1, figures_of(charge)) end
audit(id, kind, key, reservation[ADMITTED], charge, reservation[RESERVED])
return { 'cancelled' }
