// Package gormlease keeps the records of node numbers in a table of the application's own database:
// where there is a database to put rows into, nothing else is needed to hand out numbers.
//
//	db, err := gorm.Open(postgres.Open(dsn), &gorm.Config{})
//	if err != nil { ... }
//	store, err := gormlease.New(db) // makes the table snowflake_nodes if it is not there
//	if err != nil { ... }
//	defer store.Close()
//	keeper, err := lease.Acquire(ctx, store, generator.Default())
//
// It works on PostgreSQL, MySQL, MariaDB and SQLite, through gorm.io/driver or a driver that goes by
// the same name.
//
// # Beside GORM
//
// The store takes the way to the database from the *gorm.DB, its naming and its quoting, and nothing
// else: the requests go to the pool of database/sql. No transaction of the application ever holds
// them, or takes them back, also if New was given one. Hooks, plugins, prepared statements, DryRun,
// soft deletion and the logger of GORM do not come in, and with dbresolver the requests go to the
// database that gorm.Open was given, never to a replica.
//
// On PostgreSQL, MySQL and MariaDB the store opens one connection of its own, which it keeps:
// an application that has all of its connections in long transactions, or only one, still gets its
// windows extended. If the dialector was made from a pool and not from a DSN, there is no way to
// open another connection, and the store shares that pool.
//
// On SQLite it always shares the pool, because a second connection to a database in memory would
// be another database. There a transaction that writes keeps everybody else from writing, so a
// window is 10 minutes long unless the keeper is told otherwise (see [Store.SpanHint]), and a
// request waits for the transaction until its context ends.
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
// The guarantees of package lease rest on a database that does not lose what it has committed. A
// proxy that sends reads to replicas does no harm beyond a number that is taken later than it might;
// a fail-over to a replica that lagged behind does, see "What is not covered" in package lease.
package gormlease
