// Package otelobserve shows a plugin to OpenTelemetry: its metrics through a meter, and its IDs as
// attributes of the spans of creates.
//
// [Metrics] registers instruments that are read when the SDK collects. Reading them asks neither the
// database nor the store of the leases:
//
//	registration, err := otelobserve.Metrics(meter, plugin)
//
// [Attributes] is a plugin of GORM. It adds to the span of the statement's context, which a tracing
// plugin such as gorm.io/plugin/opentelemetry/tracing has begun or the application has, the IDs that a
// create was given:
//
//	err := db.Use(otelobserve.Attributes())
//
// # Metrics
//
//	snowflake.ready               1 if an ID can be made now, otherwise 0; it has the attribute "state"
//	snowflake.node                the node number; absent while there is none
//	snowflake.ids                 IDs issued
//	snowflake.waits               completed waits for the clock
//	snowflake.waited              the seconds that they took
//	snowflake.clock_steps         how often the wall clock was seen to step back
//	snowflake.lead                how many seconds the last ID is ahead of the wall clock
//	snowflake.window.remaining    seconds until the window ends, negative after its end; absent by hand
//	snowflake.window.extensions   how often the window has grown or moved
//	snowflake.layout.remaining    seconds until the time bits of the layout run out
//
// [Shards] is a plugin of GORM that counts the statements of a router by the attribute "shard", which is
// "several" for a statement over several shards:
//
//	snowflake.shard.rows          rows that statements have read or written
//	snowflake.shard.errors        statements that failed
//	snowflake.shard.statement     statements, a histogram of their seconds
//
// # Attributes of spans
//
//	snowflake.model               the name of the model
//	snowflake.count               how many rows the create has
//	snowflake.id.first            the ID of the first row, as decimal digits
//	snowflake.id.last             the ID of the last row, if there are several
package otelobserve
