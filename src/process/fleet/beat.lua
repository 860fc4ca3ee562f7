-- What a node does every 5 s: reports what it is, and learns what the others are. Follows clock.lua.
-- KEYS: the reports, when each was made, the key of all digests, since when the nodes differ.
-- ARGV: the node, its report, a key for digests if there is none, the lease in ms, 1 if the nodes differ.
local reports, seen, secret, mixed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local node, report, lease = ARGV[1], ARGV[2], tonumber(ARGV[4])
redis.call('SET', secret, ARGV[3], 'NX')
if report ~= '' then
  redis.call('HSET', reports, node, report)
  redis.call('ZADD', seen, now, node)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now - lease)) do
  redis.call('HDEL', reports, gone)
  redis.call('ZREM', seen, gone)
end
redis.call('PEXPIRE', reports, lease * 2)
redis.call('PEXPIRE', seen, lease * 2)
if ARGV[5] == '1' then
  redis.call('SET', mixed, string.format('%d', now), 'NX')
  redis.call('PEXPIRE', mixed, lease)
end
local since = redis.call('GET', mixed) or ''
local times = redis.call('ZRANGEBYSCORE', seen, '-inf', '+inf', 'WITHSCORES')
local texts = {}
for at = 1, #times, 2 do
  texts[#texts + 1] = times[at]
  texts[#texts + 1] = redis.call('HGET', reports, times[at]) or ''
end
return { redis.call('GET', secret), since, texts, times }
