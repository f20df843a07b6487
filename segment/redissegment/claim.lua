-- Claims ARGV[2] numbers of the counter ARGV[1] in the hash KEYS[1]. ARGV[3] is the least number that may be
-- returned, ARGV[4] the greatest one, ARGV[5] the residue that the counter has or gets, and ARGV[6] the
-- number that the counter has to be above. ARGV[7] is the kind that the counter has or gets if it has none, or
-- empty if any will do. ARGV[8] is the identity of the hash.
--
-- Returns {'1', first}, or {'0', next, residue, kind} of a counter that forbids the claim and was not changed,
-- or {'-', identity} of a hash that has another identity, or none.
--
-- Numbers here are floating-point and have 53 bits, and those of counters have 63. So they are compared as
-- texts, and HINCRBY adds them.
local number, residue = 'next:' .. ARGV[1], 'residue:' .. ARGV[1]
-- Earlier versions take every field with a colon for one of theirs.
local sort = 'kind ' .. (string.gsub(ARGV[1], ':', '\1'))

local function less(a, b)
	if #a ~= #b then
		return #a < #b
	end
	return a < b
end

local known = redis.call('HMGET', KEYS[1], 'identity')[1] or ''
if known ~= ARGV[8] then
	return {'-', known}
end
local stored = redis.call('HMGET', KEYS[1], number, residue, sort)
local noted = stored[3] or ''
local kind = noted
if not stored[1] and not stored[2] then
	-- An earlier version that has removed the counter has left its kind.
	stored, kind = {'1', ARGV[5]}, ''
end
if not stored[1] or not stored[2] or not string.find(stored[1], '^[1-9]%d*$') then
	return {'0', stored[1] or '', stored[2] or '', kind}
end
local first = stored[1]
if less(first, ARGV[3]) then
	first = ARGV[3]
end
local other = ARGV[7] ~= '' and kind ~= '' and kind ~= ARGV[7]
if other or stored[2] ~= ARGV[5] or less(ARGV[4], first) or not less(ARGV[6], stored[1]) then
	return {'0', stored[1], stored[2], kind}
end
if ARGV[7] ~= '' then
	kind = ARGV[7]
end
if kind ~= noted then
	redis.call('HSET', KEYS[1], sort, kind)
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], number, first, residue, ARGV[5], 'updated:' .. ARGV[1], time[1])
redis.call('HINCRBY', KEYS[1], number, ARGV[2])
return {'1', first}
