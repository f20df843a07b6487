// Package keys compares kinds of primary keys on real databases: how fast a table grows, how large it gets,
// and how fast its rows are found.
//
// Every kind of key gets a database of its own, and a table with the same five columns. Everything is
// measured in many short rounds. In a round all kinds take turns in a random order, and each is compared with
// the others of its round. A figure is the mean of the middle half of the rounds. So compare the figures of
// one server with each other. The rows arrive in batches of 500 in the order in which their keys are made, as
// they do in most applications.
//
//	SNOWFLAKE_KEYS=1000000 go test . -run TestMeasureKeys -count 1 -v -timeout 10h
//
// This writes results/keys.json, and tables of docs/benchmarks.md. Without the variable the test only checks
// with a few rows that every kind of key works on every server.
package keys
