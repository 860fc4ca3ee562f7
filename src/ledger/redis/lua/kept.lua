-- Returns until when counters are kept. Changes nothing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: names
-- `names` is JSON.
-- outcomes:
--   kept epoch, and a time for each of the counters; -1 for one that is not stored

local reply = { 'kept', exact(tonumber(redis.call('HGET', SCOPES, EPOCH) or 0)) }
open_counters(names)
for i = 1, #names do
  local counter = counters[names[i]]
  -- One that running requests use does not end before them.
  local kept = counter.scope[LIVE] > 0 and max(counter.kept, now + LATER_MS) or counter.kept
  reply[#reply + 1] = counter.is_new and '-1' or exact(kept)
end
return reply
