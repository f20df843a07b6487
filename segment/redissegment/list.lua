-- Returns the fields and values of the hash KEYS[1] that belong to counters whose names begin with ARGV[1].
-- ARGV[2] is the identity of the hash. It returns {'-', identity} of a hash that has another one, or none.
-- The write makes sure that this is the master, and that there is something for WithStrict to wait for.
local known = redis.call('HMGET', KEYS[1], 'identity')[1] or ''
if known ~= ARGV[2] then
	return {'-', known}
end
redis.call('HINCRBY', KEYS[1], 'readings', 1)
local all, found = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
	if string.sub(all[i], 1, 5) == 'kind ' then
		all[i] = 'kind:' .. (string.gsub(string.sub(all[i], 6), '\1', ':'))
	end
	local colon = string.find(all[i], ':', 1, true)
	if colon and string.sub(all[i], colon + 1, colon + #ARGV[1]) == ARGV[1] then
		found[#found + 1] = all[i]
		found[#found + 1] = all[i + 1]
	end
end
return found
