// Package dbtest opens the real databases that the tests of this module run on.
//
// There are four targets: SQLite in a file, PostgreSQL, MariaDB, and MariaDB with GORM's use of
// RETURNING switched off, which is how GORM works on MySQL. Every call to [Target.Open] or
// [Target.DSN] makes a database of its own, empty, and drops it when the test ends, so tests
// may run in parallel, in several packages and in several processes at once.
//
// # Servers
//
// SQLite needs nothing but cgo. The servers are found like this:
//
//	SNOWFLAKE_POSTGRES_DSN  a URL or key=value string of PostgreSQL, as pgx reads it
//	SNOWFLAKE_MARIADB_DSN   a DSN of MariaDB or MySQL, as github.com/go-sql-driver/mysql reads it
//
// A variable that is not set stands for 127.0.0.1 and the usual port, with the logins of a
// development machine: postgres or root without a password, then snowflake with the password
// snowflake. A login has to be able to create databases; in PostgreSQL it is enough that it may
// create a schema in the database that its DSN names. A MySQL server serves the target
// mariadb-noreturning, and mariadb is skipped on it.
//
// # Skips and failures
//
// A server that does not answer means a skip that names the variable to set, so that the tests
// run on a machine with nothing but Go and a C compiler. It means a failure where its variable
// is set, and where
//
//	SNOWFLAKE_REQUIRE=postgres,mariadb
//
// names it. The project's test command sets that, so that a test which did not run cannot pass.
//
// A DSN may hold a password. Nothing here writes one to an error or a log, and neither should
// the tests.
package dbtest
