// Package promobserve shows a plugin to Prometheus: whether it can make IDs, for how long its window
// lasts, and how much it has done.
//
// Register one collector for each plugin:
//
//	registry.MustRegister(promobserve.New(plugin))
//
// A scrape reads the plugin's memory only. It asks neither the database nor the store of the leases, so
// it works, and tells the truth, while they are down. A program with several plugins gives each a label
// of its own with prometheus.WrapRegistererWith.
//
// # Metrics
//
//	snowflake_ready                           1 if an ID can be made now, otherwise 0
//	snowflake_state{state="leased"}           1 for the state that the plugin is in, 0 for every other
//	snowflake_node                            the node number; absent while there is none
//	snowflake_ids_total                       IDs issued
//	snowflake_waits_total                     completed waits for the clock
//	snowflake_waited_seconds_total            the time that they took
//	snowflake_clock_steps_total               how often the wall clock was seen to step back
//	snowflake_lead_seconds                    how far the last ID is ahead of the wall clock
//	snowflake_window_end_timestamp_seconds    the end of the window; absent for a number given by hand
//	snowflake_window_extensions_total         how often the window has grown or moved
//	snowflake_failing_since_timestamp_seconds when the failures of extensions began; absent if there is none
//	snowflake_layout_end_timestamp_seconds    when the time bits of the layout run out
//
// Each source of numbers has these, with its name as the label source, which is empty for that of WithSource:
//
//	snowflake_source_numbers_total{source="invoice"}  numbers that it has given out
//	snowflake_source_left                             numbers that it can give out without its store
//	snowflake_source_lasts_seconds                    how long these last; absent while the rate is not known
//	snowflake_source_claims_total                     claims of blocks that the store has granted
//	snowflake_source_claim_failures_total             claims of blocks that failed
//	snowflake_source_failing_since_timestamp_seconds  when claims began to fail; absent if none does
//
// The service has these metrics under the same names; package idcollector has what both share.
//
// [Shards] makes a collector of a router, which counts by shard. The shard of a statement over several shards
// is "several":
//
//	snowflake_shard_rows_total{shard="7"}     rows that statements have read or written
//	snowflake_shard_errors_total              statements that failed
//	snowflake_shard_statement_seconds         statements, a histogram of their times
//
// Times are seconds since 1970, and durations are seconds, as the conventions of Prometheus ask. The
// folder dashboards beside this package has a dashboard for Grafana and rules for alerts.
package promobserve
