// Package sqllease keeps the records of node numbers in a table of PostgreSQL, MySQL, MariaDB or
// SQLite, by way of database/sql. It imports no driver and no ORM. Programs that use GORM take
// package gormlease, which is built on this one.
//
//	pool, err := sql.Open("pgx", dsn)
//	if err != nil { ... }
//	store, err := sqllease.New(ctx, pool, sqllease.PostgreSQL, sqllease.WithDedicatedPool())
//	if err != nil { ... }
//	defer store.Close() // and the pool with it
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
//
// # Connections
//
// With [WithDedicatedPool] the *sql.DB is the store's alone. The store keeps one connection, and a
// renewal is one statement on it. This is the better choice on a server: an application that has all
// of its connections in transactions still gets its windows extended. [ConnectionName] tells the
// administrator whose connection it is.
//
// Otherwise the store shares the pool with the application, as it must for a database of SQLite in
// memory. It takes one connection for each request, and some more round trips, because an application
// can leave a connection in a transaction, with a plain BEGIN statement, or without autocommit.
//
// # What is acknowledged is committed
//
// A swap that has returned true is committed, and a rollback of the application cannot undo it:
//
//   - On MySQL and MariaDB the store switches autocommit on for each new connection of a dedicated
//     pool. On a shared one each request is a transaction of its own.
//   - On a shared pool the store looks whether the connection is inside a transaction that somebody
//     else began. Then nothing is written. The store tries again until the context ends.
//   - On SQLite each request is a transaction of its own, which SQLite refuses inside another one.
//   - On PostgreSQL a change waits for the disk, and for the synchronous standbys if there are any, whatever
//     synchronous_commit is. So does a reading of all records. The setting is that of one transaction.
//
// # The table
//
// There is one row for each number that was ever used, and it is never removed:
//
//	node       the number, the primary key
//	owner      who holds it, or held it last; empty once it was given back
//	until      the end of its last window
//	version    how often the row was written
//	layout     which layout the number is used with
//	updated_at when the row was written, by the writer's clock
//
// Times are text, in UTC, always 30 characters long, so that they sort and are exact to the
// nanosecond whatever the database, the driver and their time zones do with times:
//
//	2026-11-21T08:03:10.123456789Z
//
// New makes the table, if it may. Otherwise its error holds the statement that does, which
// [DDL] returns too; the application itself needs no more than SELECT, INSERT and UPDATE. Owner and
// layout are of type varbinary on MySQL and MariaDB, so that no character set comes between and no
// comparison ignores case or blanks. CONVERT(owner USING utf8mb4) shows the text in clients that
// print such columns as hexadecimal digits.
//
// # What the database has to be
//
// The guarantees of package lease rest on a database that does not lose what it has committed. A fail-over
// to a replica that lagged behind does, see "What is not covered" in package lease.
//
// A proxy that sends reads to replicas does no harm beyond a number that is taken later than it might. A
// program that has just made the table may look for it on a replica that does not have it yet, and New
// returns an error wrapping [lease.ErrStore]. Call it again, or make the table beforehand.
package sqllease
