-- Frees what is held and makes `spent` what it was really. Never refuses: the tokens are spent. A lost reservation is
-- corrected.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits admitted direct epoch node
-- `charge` has the columns of the charge that was sent with them.
--
-- outcomes:
--   settled
--   already_settled
--   cancelled   (it was cancelled before; nothing is charged)
--   emptied   (this is not the epoch that the caller knows, or its node has not given back all to it; nothing is done)
--   unknown   (only where direct is 0; where it is 1 an unknown one is charged into the windows of its admission)

local record
if node ~= '' then
  record = load_node(node)
  if this_epoch(epoch) ~= epoch or not record then return { 'emptied' } end
  if record[NODE_EPOCH] ~= epoch or record[NODE_GIVEN] ~= ALL_GIVEN then return { 'emptied' } end
end

local reservation = load_reservation(id)
if not reservation and direct == 0 then return { 'unknown' } end
if reservation and reservation[STATE] == IS_SETTLED then return { 'already_settled' } end
if reservation and reservation[STATE] == IS_CANCELLED then return { 'cancelled' } end

local scopes = load_scopes(key)
advance(scopes, limits)

local kind, held = 'settled', 0
if reservation then
  admitted, held = reservation[ADMITTED], reservation[RESERVED]
  if reservation[STATE] == IS_LOST then
    kind = 'late'
    count(day_of(admitted), key, reservation[MODEL], -1, lost_figures(reservation))
  end
  free(reservation, scopes, used)
  correct(reservation, scopes, limits, used)
else
  kind = 'direct'
  -- No later than the scope's own window, which stands still while the clocks disagree.
  local windows, bound = windows_at(admitted), {}
  for s = 1, 2 do
    for b = 1, BUDGETS do bound[ADMISSION[s][b]] = min(scopes[s][WINDOW[b]], windows[PERIOD[b]]) end
  end
  for i = 1, #BUDGET_UNITS do move(bound, scopes, BUDGET_UNITS[i], used[BUDGET_UNITS[i]], 0) end
end

save_scopes(key, scopes)
bury(id, IS_SETTLED)
-- A request that reached no provider has no model, and counts nowhere.
if charge.model ~= '' then
  local figures = figures_of(charge)
  count(day_of(admitted), key, charge.model, 1, figures)
  if node ~= '' then
    count_of_node(node, record, day_of(admitted), key, charge.model, figures)
    save_node(node, record)
  end
end
audit(id, kind, key, admitted, charge, held)
return { 'settled' }
