module github.com/snowflakeplugin/snowflakeplugin/bench

go 1.25.0

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/godruoyi/go-snowflake v0.0.2
	github.com/google/uuid v1.6.0
	github.com/muyo/sno v1.2.1
	github.com/oklog/ulid/v2 v2.1.1
	github.com/rs/xid v1.6.0
	github.com/snowflakeplugin/snowflakeplugin v0.0.0-00010101000000-000000000000
	github.com/sony/sonyflake/v2 v2.2.0
	github.com/yitter/idgenerator-go v1.3.3
)

replace github.com/snowflakeplugin/snowflakeplugin => ..
