-- Sets the field ARGV[1] of the hash KEYS[1] to ARGV[4] if it is a record with the owner ARGV[2]
-- and the version ARGV[3]; version 0: if there is none. With ARGV[5] and ARGV[6], only while the
-- clock is between them, both included, in microseconds.
--
-- Returns {1}, or {0} and what is stored instead, if the record was the reason.
if ARGV[5] then
	local time = redis.call('TIME')
	-- Microseconds since 1970 and versions fit the 53 bits of a number here, for centuries.
	local now = time[1] * 1000000 + time[2]
	if now < tonumber(ARGV[5]) or now > tonumber(ARGV[6]) then
		return {0}
	end
end
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[3] == '0' then
	if stored then
		return {0, stored}
	end
else
	if not stored then
		return {0}
	end
	local readable, record = pcall(cjson.decode, stored)
	if not readable or type(record) ~= 'table' or record.owner ~= ARGV[2]
		or record.version ~= tonumber(ARGV[3]) then
		return {0, stored}
	end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return {1}
