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
// the same name. Package sqllease, which describes the table, is the same store for programs that do
// not use GORM; this package finds a connection for it.
//
// # Identity
//
// The table snowflake_authority, in the schema of the records, keeps the identity of the store
// (see [lease.Identity]). It is made at the first [Store.Identity], which the plugin calls at db.Use.
// [AuthorityDDL] returns its statement for those who make tables by other means.
//
// # Beside GORM
//
// The store takes the connection data and the name of the dialect from the *gorm.DB, and nothing
// else: its requests go to the pool of database/sql. No transaction of the application ever delays
// them or rolls them back, even if New was given one. Hooks, plugins, prepared statements, DryRun,
// soft deletion and the logger of GORM do not come in, and with dbresolver the requests go to the
// database that gorm.Open was given, never to a replica.
//
// # Connections
//
// On PostgreSQL, MySQL and MariaDB the store opens one connection of its own, which it keeps:
// an application that has all of its connections in long transactions, or only one, still gets its
// windows extended. An administrator finds that connection by its application_name or program_name
// (see [sqllease.ConnectionName]). If the dialector was made from a pool and not from a DSN, there
// is no way to open another connection, and the store shares that pool.
//
// On SQLite the store opens the file with the same DSN for each request. It shares the pool of a
// database in memory, because a second connection would be to another database, of a file in
// exclusive locking mode, and where the dialector was made from a pool. A transaction that writes
// keeps everybody else from writing, so a window grows up to 10 minutes unless the keeper is told
// otherwise (see [Store.SpanHint]), and a request waits for the transaction until its context ends.
//
// On a pool that is shared each request makes sure that it is inside no transaction, which an
// application can begin with a plain BEGIN statement. It waits for the end of such a transaction.
package gormlease
