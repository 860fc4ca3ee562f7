-- Gives back to an emptied Redis what one node's log holds: one row of usage a call, each once, in the order of their numbers. Number 0
-- gives nothing back: it asks, and begins a life where there is none.
--
-- keys: scopes reservations deadlines audit usage
-- arguments: life witness node number key day model requests estimated input cached output images cost
-- outcomes:
--   restored life done   (done: the number of the node's last row that is given back)
--   emptied   (this is not the life that the caller gives back to)

local known, witness, node, number = amount(ARGV[1]), tonumber(ARGV[2]), ARGV[3], amount(ARGV[4])
local key, day, model = ARGV[5], amount(ARGV[6]), ARGV[7]
local figures = {
  amount(ARGV[8]), amount(ARGV[9]), amount(ARGV[10]), amount(ARGV[11]), amount(ARGV[12]), amount(ARGV[13]), amount(ARGV[14]),
}

local life = this_life()
if number > 0 and life ~= known then return { 'emptied' } end
local done = tonumber(redis.call('HGET', SCOPES, NODE .. node) or 0)
if number ~= done + 1 then return { 'restored', exact(life), exact(done) } end

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
audit(node .. ' ' .. exact(number), 'restored', '', key, model, '', 0, figures, cost)
redis.call('HSET', SCOPES, NODE .. node, number)
return { 'restored', exact(life), exact(number) }
