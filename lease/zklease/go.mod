module github.com/snowflakeplugin/snowflakeplugin/lease/zklease

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/snowflakeplugin/snowflakeplugin v0.0.0-00010101000000-000000000000
)

replace github.com/snowflakeplugin/snowflakeplugin => ../..
