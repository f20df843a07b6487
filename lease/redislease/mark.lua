-- Returns the field ARGV[1] of the hash KEYS[1], which is the mark. If there is none, it becomes ARGV[2] first. With
-- ARGV[3] that needs a record beside it, otherwise nothing is returned. The mark is written in any case, because only
-- a master takes writes.
local mark = redis.call('HGET', KEYS[1], ARGV[1])
if not mark then
	local fields = redis.call('HGETALL', KEYS[1])
	if ARGV[3] and (#fields == 0 or #fields == 2 and fields[1] == 'lists') then
		return {}
	end
	mark = ARGV[2]
end
redis.call('HSET', KEYS[1], ARGV[1], mark)
return {mark}
