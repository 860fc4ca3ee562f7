-- Sets the day and the month of an organisation and of one key back to now if they lie ahead, with what was spent in those of now.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments: witness key day month keyDay keyMonth
-- outcomes:
--   reset count
--   disagree   (this clock and the caller's are a minute apart: one of them is wrong)

local witness, key = tonumber(ARGV[1]), ARGV[2]
local spends = { { amount(ARGV[3]), amount(ARGV[4]) }, { amount(ARGV[5]), amount(ARGV[6]) } }

if math.abs(now - witness) > CLOCK_SKEW_MS then return { 'disagree' } end
local scopes = load_scopes(key)
local windows = { { DAY, day_of(now) }, { MONTH, month_of(now) } }
local count = 0
for s = 1, 2 do
  for w = 1, 2 do
    local budget, window = windows[w][1], windows[w][2]
    if scopes[s][budget] > window then
      scopes[s][budget], scopes[s][budget + SPENT], scopes[s][budget + HELD] = window, spends[s][w], 0
      count = count + 1
    end
  end
end
if count > 0 then save_scopes(key, scopes) end
return { 'reset', count }
