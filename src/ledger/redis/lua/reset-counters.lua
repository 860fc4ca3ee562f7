-- Sets back to now the windows of counters that lie ahead in every time zone, with what was spent in the current ones.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: witness names spends present begun
-- All but `witness` are JSON. `names`: of counters. `spends`: for each of them a list: what usage has of it, by budget,
-- and until when it is kept; both are absent if usage has nothing. With them a counter that is not stored begins.
-- `present`: windows, their ends and starts, as `add_counters` takes them. `begun`: the latest windows that have begun
-- in any time zone, and the latest ends of these.
-- outcomes:
--   reset count
--   disagree   (this clock and the caller's are more than a minute apart)

if not is_trusted() then return { 'disagree' } end
local windows, ends, count, marks = present[1], present[2], 0, {}
open_counters(names)

-- What the settlements of a node have spent goes back with the counter: else the node would take it for lost.
local function move_parts(name, b, early)
  local nodes = redis.call('HGET', COUNTERS, PART_NODES .. name) or ''
  for node in string.gmatch(nodes, '[^%z]+') do
    local field = part_field(node, name)
    local packed = redis.call('HGET', COUNTERS, field)
    local part = packed and cmsgpack.unpack(packed) or { VERSION }
    if part[1] ~= VERSION then error({ err = 'VERSION of a part is not known' }) end
    if part[2 * b] == early then
      part[2 * b] = windows[b]
      redis.call('HSET', COUNTERS, field, cmsgpack.pack(part))
    end
  end
end

for i = 1, #names do
  local name, counter = names[i], counters[names[i]]
  local scope, spent, kept = counter.scope, spends[i][1] or {}, spends[i][2]
  if counter.is_new and kept then
    -- It has ended by the wrong clock, and its windows are the current ones again.
    for b = 1, BUDGETS do
      scope[WINDOW[b]], scope[SPENT[b]], counter.ends[b] = windows[b], amount(spent[b]), ends[b]
    end
    counter.kept, counter.is_changed, counter.is_added = max(now, amount(kept)), true, true
  end
  for b = 1, counter.is_new and 0 or BUDGETS do
    local early = scope[WINDOW[b]]
    if is_ahead(counter, b, begun) then
      -- No less counts as spent than since the window began too early.
      scope[SPENT[b]] = max(amount(spent[b] or 0), scope[SPENT[b]])
      scope[WINDOW[b]], scope[HELD[b]], counter.ends[b] = windows[b], 0, ends[b]
      counter.is_changed, count = true, count + 1
      marks[#marks + 1] = MARKS .. name
      move_parts(name, b, early)
    end
  end
end
save_counters()
if #marks > 0 then redis.call('HDEL', COUNTERS, unpack(marks)) end
return { 'reset', count }
