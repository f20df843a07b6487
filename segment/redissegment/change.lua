-- Gives the counter ARGV[1] in the hash KEYS[1] the next number ARGV[5], the residue ARGV[6] and the kind
-- ARGV[7], if it has the next number ARGV[2], the residue ARGV[3] and the kind ARGV[4]. If ARGV[2] is 0, it makes
-- the counter if there is none. If ARGV[5] is 0, it removes the counter. ARGV[8] is the identity of the hash.
--
-- Returns {'1'}, or {'0'} if the stored counter is another one, or {'-', identity} of a hash that has another
-- identity, or none.
local number, residue, updated = 'next:' .. ARGV[1], 'residue:' .. ARGV[1], 'updated:' .. ARGV[1]
local sort = 'kind ' .. (string.gsub(ARGV[1], ':', '\1'))
local known = redis.call('HMGET', KEYS[1], 'identity')[1] or ''
if known ~= ARGV[8] then
	return {'-', known}
end
local stored = redis.call('HMGET', KEYS[1], number, residue, sort)
if ARGV[2] == '0' then
	if stored[1] or stored[2] then
		return {'0'}
	end
elseif stored[1] ~= ARGV[2] or stored[2] ~= ARGV[3] or (stored[3] or '') ~= ARGV[4] then
	return {'0'}
end
if ARGV[5] == '0' then
	redis.call('HDEL', KEYS[1], number, residue, updated, sort)
else
	local time = redis.call('TIME')
	redis.call('HSET', KEYS[1], number, ARGV[5], residue, ARGV[6], updated, time[1], sort, ARGV[7])
end
return {'1'}
