// Package servers is for tests against servers that are no databases, and against servers that
// fail: it says what happens when one is absent, runs programs for a single test, and stands
// between a client and a server as a network that breaks.
//
// Like internal/dbtest it skips a test whose server is absent, and fails it if the environment
// variable SNOWFLAKE_REQUIRE, a list with commas, names the server.
package servers
