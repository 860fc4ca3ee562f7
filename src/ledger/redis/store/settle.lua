-- Frees what is held and makes `spent` what it was really. Never refuses: the tokens are spent. A lost reservation is corrected.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: id witness key organizationLimits keyLimits input output cost cached images estimated counted model provider outcome
--   admitted direct life node
-- outcomes:
--   settled
--   already_settled
--   cancelled   (it was cancelled before; nothing is charged)
--   emptied   (this is not the life that the caller knows, or its node has not given back all to it; nothing is done)
--   unknown   (only where direct is 0; where it is 1 an unknown one is charged into the windows of its admission)

local input, output, cost = amount(ARGV[6]), amount(ARGV[7]), amount(ARGV[8])
local cached, images, estimated = amount(ARGV[9]), amount(ARGV[10]), amount(ARGV[11])
local counted, model, provider, outcome = ARGV[12] == '1', ARGV[13], ARGV[14], ARGV[15]
local admitted, direct = amount(ARGV[16]), ARGV[17] == '1'
local known, node = amount(ARGV[18]), ARGV[19]

local record
if node ~= '' then
  record = load_node(node)
  if this_life(known) ~= known or not record then return { 'emptied' } end
  if record[NODE_LIFE] ~= known or record[NODE_GIVEN] ~= ALL_GIVEN then return { 'emptied' } end
end

local reservation = load_reservation(id)
if not reservation and not direct then return { 'unknown' } end
if reservation and reservation[STATE] == IS_SETTLED then return { 'already_settled' } end
if reservation and reservation[STATE] == IS_CANCELLED then return { 'cancelled' } end

local scopes = load_scopes(key)
advance(scopes[1], limits[1])
advance(scopes[2], limits[2])

local kind, held = 'settled', 0
if reservation then
  admitted, held = reservation[ADMITTED], reservation[RESERVED]
  if reservation[STATE] == IS_LOST then
    kind = 'late'
    count(day_of(admitted), key, reservation[MODEL], -1, lost_figures(reservation))
  end
  free(reservation, scopes, cost)
  correct_tokens(reservation, scopes, limits, sum(input, output))
else
  kind = 'direct'
  -- No later than the scope's own window, which stands still while the clocks disagree.
  local admission, charged = { day_of(admitted), month_of(admitted), 0 }, { [POSTED] = 0, [RESERVED] = 0 }
  for s = 1, 2 do
    for b = 1, 3 do charged[WINDOWS + (s - 1) * 3 + b] = min(scopes[s][BUDGETS[b]], admission[b]) end
  end
  move(charged, scopes, cost, 0)
end

save_scopes(key, scopes)
bury(id, IS_SETTLED)
local figures = { 1, estimated, input, cached, output, images, cost }
if counted then
  count(day_of(admitted), key, model, 1, figures)
  if node ~= '' then
    count_of_node(node, record, day_of(admitted), key, model, figures)
    save_node(node, record)
  end
end
audit(id, kind, outcome, key, model, provider, admitted, figures, held)
return { 'settled' }
