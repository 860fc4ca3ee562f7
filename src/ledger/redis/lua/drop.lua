-- Deletes the figures of a key that nobody can use any more, once none of its requests runs and none can be settled
-- late.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments: key
-- outcomes:
--   dropped
--   kept   (it has none, or a request of it may still be settled)

local packed = redis.call('HGET', SCOPES, scope_field(key))
if not packed then return { 'kept' } end
local scope = load_scope(packed)
if scope[LIVE] > 0 or now - scope[AT] < DAY_MS then return { 'kept' } end
redis.call('HDEL', SCOPES, scope_field(key), refused_field(2, key))
return { 'dropped' }
