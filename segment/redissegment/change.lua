-- Gives the counter ARGV[1] in the hash KEYS[1] the next number ARGV[4] and the residue ARGV[5], if it has
-- the next number ARGV[2] and the residue ARGV[3]. If ARGV[2] is 0, it makes the counter if there is none. If
-- ARGV[4] is 0, it removes the counter. ARGV[6] is the identity of the hash.
--
-- Returns {'1'}, or {'0'} if the stored counter is another one, or {'-', identity} of a hash that has another
-- identity, or none.
local number, residue, updated = 'next:' .. ARGV[1], 'residue:' .. ARGV[1], 'updated:' .. ARGV[1]
local known = redis.call('HMGET', KEYS[1], 'identity')[1] or ''
if known ~= ARGV[6] then
	return {'-', known}
end
local stored = redis.call('HMGET', KEYS[1], number, residue)
if ARGV[2] == '0' then
	if stored[1] or stored[2] then
		return {'0'}
	end
elseif stored[1] ~= ARGV[2] or stored[2] ~= ARGV[3] then
	return {'0'}
end
if ARGV[4] == '0' then
	redis.call('HDEL', KEYS[1], number, residue, updated)
else
	local time = redis.call('TIME')
	redis.call('HSET', KEYS[1], number, ARGV[4], residue, ARGV[5], updated, time[1])
end
return {'1'}
