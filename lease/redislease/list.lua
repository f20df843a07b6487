-- Returns all fields of the hash KEYS[1]. The write makes sure that this is the master, and that
-- there is something for Strict to wait for.
redis.call('HINCRBY', KEYS[1], 'lists', 1)
return redis.call('HGETALL', KEYS[1])
