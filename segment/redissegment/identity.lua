-- Returns the identity of the hash KEYS[1], which is ARGV[1] if it has none yet. It is always written, so
-- that there is something for WithStrict to wait for.
local identity = redis.call('HMGET', KEYS[1], 'identity')[1] or ARGV[1]
redis.call('HSET', KEYS[1], 'identity', identity)
return {identity}
