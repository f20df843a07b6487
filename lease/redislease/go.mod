module github.com/snowflakeplugin/snowflakeplugin/lease/redislease

go 1.25.0

require (
	github.com/redis/go-redis/v9 v9.22.0
	github.com/snowflakeplugin/snowflakeplugin v0.0.0-00010101000000-000000000000
	github.com/snowflakeplugin/snowflakeplugin/internal/redisstore v0.0.0-00010101000000-000000000000
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)

replace github.com/snowflakeplugin/snowflakeplugin => ../..

replace github.com/snowflakeplugin/snowflakeplugin/internal/redisstore => ../../internal/redisstore
