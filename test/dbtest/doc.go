// Package dbtest opens the real databases that the tests of this module run on.
//
// There are five targets: SQLite in a file, PostgreSQL, MariaDB, MariaDB without GORM's use of
// RETURNING, and MySQL, which has no RETURNING. If SNOWFLAKE_TIDB_DSN is set, TiDB is the sixth. Tests
// of what does not depend on how GORM reads rows back take their targets from [Servers], which has one
// for each kind of server. Every call to [Target.Open] or [Target.DSN] creates a new, empty database and
// drops it when the test ends. Tests can therefore run in parallel, in several packages and in several
// processes. A package that creates hundreds of databases takes its targets from [EachShared]. On
// PostgreSQL these targets create schemas in one database instead of databases, which is five times as
// fast.
//
// # Servers
//
// SQLite needs only cgo. These variables tell where the servers are:
//
//	SNOWFLAKE_POSTGRES_DSN  a URL or key=value string of PostgreSQL, as pgx reads it
//	SNOWFLAKE_MARIADB_DSN   a DSN of MariaDB, as github.com/go-sql-driver/mysql reads it
//	SNOWFLAKE_MYSQL_DSN     a DSN of MySQL, in the same form
//	SNOWFLAKE_TIDB_DSN      a DSN of TiDB, in the same form; "make tidb" sets it
//
//	SNOWFLAKE_MYSQL_TRUSTED_DSN  a login of that MySQL that may create triggers, for [Target.Privileged]
//
// If a variable is not set, the server is expected on 127.0.0.1 and its usual port. MySQL is expected on
// port 3308, because MariaDB has its usual one. The package then tries the logins of a development machine:
// postgres or root without a password, and then snowflake with the password snowflake. On MySQL it tries
// snowflake first. A login must be able to create databases. In PostgreSQL it is enough that the login can
// create schemas in the database that its DSN names. The variable of MariaDB may lead to a MySQL server, so
// tests ask [Target.IsMySQL] and [Target.IsTiDB] what the server is, and not for the name. There the target
// mariadb-noreturning is skipped, because it is the same as mariadb.
//
// # Skips and failures
//
// A test is skipped if its server does not answer, so the tests run on a machine that has only Go
// and a C compiler. The message names the variable to set. The test fails instead if that variable
// is already set, or if SNOWFLAKE_REQUIRE names the server:
//
//	SNOWFLAKE_REQUIRE=postgres,mariadb
//
// The project's test command sets SNOWFLAKE_REQUIRE, so a skipped test cannot count as passed
// there.
//
// A DSN may hold a password. This package never writes a DSN to an error or a log, and tests must
// not do so either.
package dbtest
