-- Adds figures of a node that was away for long to one sum for each key, in the node's record, and deletes them. When
-- the node comes back, it knows from its own log what each sum consists of. An earlier version does not know the sums,
-- and would give everything back a second time: it rejects the record because of its version.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: node rows
-- `rows` is JSON: the day, the key and the series of each.
-- outcomes:
--   summed
--   kept   (the node has no record, or compares its log at present)

local record = load_node(node)
if not record then return { 'kept' } end
local epoch = tonumber(redis.call('HGET', SCOPES, EPOCH) or 0)
if record[NODE_EPOCH] == epoch and record[NODE_GIVEN] ~= ALL_GIVEN then return { 'kept' } end

local stored, sums = record[NODE_SUMS] or '', {}
local before = tonumber(string.match(stored, '^%d+') or 0)
for key, figures in string.gmatch(stored, '%z([^%z]*)%z([^%z]*)') do sums[key] = load_figures(figures) end

local gone = {}
for i = 1, #rows do
  local day, key, series = unpack(rows[i])
  local field = field_of_node(node, day, key, series)
  local figures = day < day_of(now) - NODE_DAYS_KEPT and redis.call('HGET', NODES, field)
  if figures then
    sums[key] = sums[key] or {}
    add_to(sums[key], 1, load_figures(figures))
    before = max(before, day + 1)
    gone[#gone + 1] = field
  end
end
if #gone > 0 then
  local parts = { exact(before) }
  for key, totals in pairs(sums) do
    parts[#parts + 1] = key
    parts[#parts + 1] = figures_text(totals)
  end
  record[1], record[NODE_SUMS] = SUMS_VERSION, table.concat(parts, '\0')
  save_node(node, record)
  redis.call('HDEL', NODES, unpack(gone))
end
return { 'summed' }
