-- Gives back to Redis what it lacks of one node's log: one row of usage for each call, each once, in the order of their
-- numbers. The last row ends it; number 0 of 0 means that nothing is missing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: witness epoch node number last key day series
-- `figures` are those of the row; `charge` has them as columns.
--
-- outcomes:
--   restored given   (the number of the node's last row that is given back, -1: all)
--   emptied   (this is not the epoch that the caller gives back to)

local record, reached = turn_of_row(node, epoch, number, last)
if not record then return { 'emptied' } end
if reached then return { 'restored', exact(reached) } end

if last > 0 then
  local windows = windows_at(day * DAY_MS)
  -- What a node away for long gives back may have been charged in part when its reservations were lost.
  local claimed = claim(window_end_ms(DAY, day) - 1, key, figures)
  used[MICRO_USD] = used[MICRO_USD] - claimed[COST_FIGURE]
  local scopes = load_scopes(key)
  for s = 1, 2 do
    local scope = scopes[s]
    if is_trusted() then roll(scope) end
    for b = 1, OWN_BUDGETS do
      -- No later than the scope's own window, as in settle.lua.
      local restored = scope[WINDOW[b]] <= windows[PERIOD[b]] and used[BUDGET_UNIT[b]] or 0
      scope[SPENT[b]] = sum(scope[SPENT[b]], restored)
      if restored > 0 then record_crossing(scopes, s, b, NONE, '') end
    end
  end
  save_scopes(key, scopes)
  count(day, key, series, 1, figures)
  count(day, key, series, -1, claimed)
  count_of_node(node, record, day, key, series, figures)
  local id = node .. ' ' .. exact(epoch) .. ' ' .. exact(number)
  audit(id, 'restored', key, 0, charge, charge.cost)
end
save_given(node, record, number, last)
return { 'restored', exact(record[NODE_GIVEN]) }
