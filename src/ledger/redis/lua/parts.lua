-- Returns what Redis has of a node's settlements in counters, and the counters of reservations that are open. Changes
-- nothing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: node names ids
-- `names` and `ids` are JSON: of counters and of reservations.
-- outcomes:
--   parts, and a text for each of the counters, then for each of the reservations; '' for what is not stored. The first
--     are numbers with commas between them: for each budget a window and what was spent in it. The others have for each
--     counter its name and its windows, with zero bytes between all of them.

local reply = { 'parts' }
for i = 1, #names do
  local packed = redis.call('HGET', COUNTERS, part_field(node, names[i]))
  local part = packed and cmsgpack.unpack(packed) or { VERSION }
  if part[1] ~= VERSION then error({ err = 'VERSION of a part is not known' }) end
  table.remove(part, 1)
  reply[#reply + 1] = #part > 0 and figures_text(part) or ''
end
for i = 1, #ids do
  local hold, words = load_hold(ids[i]), {}
  for o = 1, hold and #hold[2] or 0 do
    words[2 * o - 1], words[2 * o] = hold[2][o][1], figures_text(hold[2][o][2])
  end
  reply[#reply + 1] = table.concat(words, '\0')
end
return reply
