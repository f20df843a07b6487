-- Sets the field ARGV[1] of the hash KEYS[1] to ARGV[4] if it is a record with the owner ARGV[2]
-- and the version ARGV[3]; version 0: if there is none, and the mark has the owner ARGV[2]. With
-- ARGV[5] and ARGV[6], only while the clock is between them, both included, in microseconds.
--
-- Returns {1}, or {0} and what is stored instead, if the record was the reason.
local function read(field)
	local stored = redis.call('HGET', KEYS[1], field)
	local readable, record = pcall(cjson.decode, stored or '{}')
	if not readable or type(record) ~= 'table' then
		record = {}
	end
	return stored, record
end

if ARGV[5] then
	local time = redis.call('TIME')
	-- Microseconds since 1970 and versions fit the 53 bits of a number here, for centuries.
	local now = time[1] * 1000000 + time[2]
	if now < tonumber(ARGV[5]) or now > tonumber(ARGV[6]) then
		return {0}
	end
end
local stored, record = read(ARGV[1])
if ARGV[3] == '0' then
	if stored then
		return {0, stored}
	end
	local _, mark = read('9223372036854775807')
	if mark.owner ~= ARGV[2] then
		return {0}
	end
elseif not stored then
	return {0}
elseif record.owner ~= ARGV[2] or record.version ~= tonumber(ARGV[3]) then
	return {0, stored}
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return {1}
