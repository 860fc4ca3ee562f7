-- Deletes crossings whose alerts a gateway has queued, unless more was spent meanwhile.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: crossings
-- `crossings` is JSON: a list of fields and values, as they were read.
-- outcomes:
--   taken

for i = 1, #crossings do
  local field, value = crossings[i][1], crossings[i][2]
  if redis.call('HGET', CROSSINGS, field) == value then redis.call('HDEL', CROSSINGS, field) end
end
return { 'taken' }
