-- Returns the text at KEYS[1], after setting it to ARGV[1] if there is none.
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return {redis.call('GET', KEYS[1])}
