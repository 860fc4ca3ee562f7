-- Returns how many counters have a window that lies ahead in every time zone. Changes nothing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: names begun
-- Both are JSON, as for `resetCounters`.
-- outcomes:
--   ahead count

local count = 0
open_counters(names)
for i = 1, #names do
  local is_any = false
  for b = 1, BUDGETS do is_any = is_any or is_ahead(counters[names[i]], b, begun) end
  if is_any then count = count + 1 end
end
return { 'ahead', count }
