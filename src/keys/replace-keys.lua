-- Writes the texts of some API keys, each only if its text is still the one that the writer read, and adds each to the
-- change log.
--
-- keys: records, version, changes, admin audit, ids of organisations
-- arguments: log entries to keep, entries of the admin audit to keep, a nonce, an entry of the admin audit for each key
-- that is written, then for each key its id, its old text and its new one; '' means none
-- Without a key, adds an entry that names none. Returns the ids that were written.

local kept, audit_kept, nonce, audit = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

-- The records of organisations, which are listed without a search among all keys.
local ORGANIZATION = 'organization:'

-- Old entries removed for each new one: few, so that no call takes long.
local REMOVED_MAX = 10

local function log_change(id)
  local version = redis.call('INCR', KEYS[2])
  redis.call('ZADD', KEYS[3], version, nonce .. ' ' .. id)
  local old = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', version - kept, 'LIMIT', 0, REMOVED_MAX)
  if #old > 0 then
    redis.call('ZREM', KEYS[3], unpack(old))
  end
end

if #ARGV == 4 then
  log_change('')
end
local written = {}
for i = 5, #ARGV, 3 do
  local id, before, after = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if (redis.call('HGET', KEYS[1], id) or '') == before then
    if after == '' then
      redis.call('HDEL', KEYS[1], id)
    else
      redis.call('HSET', KEYS[1], id, after)
    end
    if string.sub(id, 1, #ORGANIZATION) == ORGANIZATION then
      local name = string.sub(id, #ORGANIZATION + 1)
      if after == '' then
        redis.call('HDEL', KEYS[5], name)
      else
        redis.call('HSET', KEYS[5], name, '')
      end
    end
    log_change(id)
    if audit ~= '' then
      redis.call('XADD', KEYS[4], 'MAXLEN', '~', audit_kept, '*', 'entry', audit)
    end
    written[#written + 1] = id
  end
end
return written
