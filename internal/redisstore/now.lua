-- Returns the clock of the server that has KEYS[1], in seconds and microseconds.
return redis.call('TIME')
