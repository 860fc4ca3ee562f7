-- Returns what Redis has counted of a node. Begins an epoch if there is none, if Redis was restored to an earlier one
-- than the caller knows, or if it is still in the one that the caller ends because something is missing. From then on
-- settlements sent under the old epoch are refused, so that the node's figures do not change until it has given back
-- what is missing.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: known node ended legacy
-- outcomes:
--   entered sums epoch given requests legacy empty   (sums: as the record has them; given: rows that the node has given
--     back to this epoch, -1: all; empty: 1 if there was no reservation and no figure of any node)

local empty = redis.call('HLEN', RESERVATIONS) + redis.call('HLEN', NODES) == 0 and 1 or 0
local before = tonumber(redis.call('HGET', SCOPES, EPOCH) or 0)
local epoch = before
if before == 0 or before < known or before == ended then epoch = begin_epoch(max(known, ended)) end
local record = load_node(node)
if not record or record[NODE_EPOCH] ~= epoch then
  -- In the epoch in which figures were not recorded by node yet, Redis has the node's figures although it has no
  -- record.
  local is_legacy = legacy ~= 0 and tonumber(redis.call('HGET', SCOPES, LEGACY_EPOCH) or 0) == legacy
  record = record or { VERSION, epoch, 0, 0, is_legacy and 1 or 0 }
  record[NODE_EPOCH], record[NODE_GIVEN] = epoch, 0
  save_node(node, record)
end
local sums, given, requests = record[NODE_SUMS] or '', record[NODE_GIVEN], record[NODE_REQUESTS]
return { 'entered', sums, exact(epoch), exact(given), exact(requests), record[NODE_LEGACY], empty }
