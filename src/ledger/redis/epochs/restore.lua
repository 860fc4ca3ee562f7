-- Gives back to Redis what it lacks of one node's log: one row of usage a call, each once, in the order of their numbers. The last row ends it;
-- number 0 of 0 says that nothing is missing.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: life witness node number last key day model requests estimated input cached output images cost
-- outcomes:
--   restored given   (the number of the node's last row that is given back, -1: all)
--   emptied   (this is not the life that the caller gives back to)

local known, witness, node, number, last = amount(ARGV[1]), tonumber(ARGV[2]), ARGV[3], amount(ARGV[4]), amount(ARGV[5])
local key, day, model = ARGV[6], amount(ARGV[7]), ARGV[8]
local figures = {
  amount(ARGV[9]), amount(ARGV[10]), amount(ARGV[11]), amount(ARGV[12]), amount(ARGV[13]), amount(ARGV[14]), amount(ARGV[15]),
}

local record = load_node(node)
if this_life(known) ~= known or not record or record[NODE_LIFE] ~= known then return { 'emptied' } end
if record[NODE_GIVEN] == ALL_GIVEN then return { 'restored', ALL_GIVEN } end
if last > 0 and number ~= record[NODE_GIVEN] + 1 then return { 'restored', exact(record[NODE_GIVEN]) } end

if last > 0 then
  local cost = figures[7]
  local admission = { day, month_of(day * DAY_MS), 0 }
  local scopes = load_scopes(key)
  for s = 1, 2 do
    local scope = scopes[s]
    if math.abs(now - witness) <= CLOCK_SKEW_MS then
      roll(scope, DAY, day_of(now))
      roll(scope, MONTH, month_of(now))
    end
    for b = 1, 3 do
      local budget = BUDGETS[b]
      -- No later than the scope's own window, as in settle.lua.
      if scope[budget] <= admission[b] then scope[budget + SPENT] = sum(scope[budget + SPENT], cost) end
    end
  end
  save_scopes(key, scopes)
  count(day, key, model, 1, figures)
  count_of_node(node, record, day, key, model, figures)
  local id = node .. ' ' .. exact(known) .. ' ' .. exact(number)
  audit(id, 'restored', '', key, model, '', 0, figures, cost)
end
record[NODE_GIVEN] = number == last and ALL_GIVEN or number
save_node(node, record)
return { 'restored', exact(record[NODE_GIVEN]) }
