-- Gives back to Redis what it lacks of a node's settlements in one counter: one of the rows of `restore`, with a number
-- among them.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: witness epoch node number last counter kept spends present
-- `spends` and `present` are JSON. `spends`: windows, and what was spent in each; `present`: windows, their ends and
-- starts, as `add_counters` takes them. `kept`: until when the counter is kept, if it is new.
--
-- outcomes:
--   restored given   (as `restore`)
--   emptied   (this is not the epoch that the caller gives back to)

local record, reached = turn_of_row(node, epoch, number, last)
if not record then return { 'emptied' } end
if reached then return { 'restored', exact(reached) } end

open_counters({ counter }, present)
local own = counters[counter]
local scope = own.scope
if is_trusted() then roll_counter(own, present) end
own.kept = own.is_new and max(now, kept) or max(own.kept, kept)
local scopes, charged, is_any = { false, false, scope, names = { counter } }, {}, false
for b = 1, BUDGETS do
  -- No later than the counter's own window, as in settle.lua.
  local restored = scope[WINDOW[b]] <= (spends[1][b] or NONE) and amount(spends[2][b]) or 0
  scope[SPENT[b]] = sum(scope[SPENT[b]], restored)
  charged[b], is_any = restored, is_any or restored > 0
  if restored > 0 then record_crossing(scopes, 3, b, NONE, '') end
end
if is_any then
  change_counters(scopes)
  save_counters(parts_with(node, { [counter] = charged }))
end
save_given(node, record, number, last)
return { 'restored', exact(record[NODE_GIVEN]) }
