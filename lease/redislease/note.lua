-- Returns the text at KEYS[1], if there is one. It is written again, because only a master takes writes.
local note = redis.call('GET', KEYS[1])
if not note then
	return {}
end
redis.call('SET', KEYS[1], note)
return {note}
