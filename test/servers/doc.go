// Package servers supports tests against servers that are not databases, and tests of servers and
// networks that fail. It decides what happens if a server is absent, starts programs for a single
// test, and puts a relay between a client and a server to simulate network failures.
//
// Like test/dbtest, it skips a test whose server is absent. It fails the test if the
// environment variable SNOWFLAKE_REQUIRE, a comma-separated list, names the server.
package servers
