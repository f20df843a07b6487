// Package sqlsegment keeps counters in a table of PostgreSQL, MySQL, MariaDB or SQLite, by way of
// database/sql. It imports no driver and no ORM. Programs that use GORM take package gormsegment, which is
// built on this one.
//
//	pool, err := sql.Open("pgx", dsn)
//	if err != nil { ... }
//	store, err := sqlsegment.New(ctx, pool, sqlsegment.PostgreSQL, sqlsegment.WithDedicatedPool())
//	if err != nil { ... }
//	defer store.Close() // and the pool with it
//	orders, err := segment.New(store, "orders")
//
// # A claim
//
// A claim is one statement, which raises the counter and returns its old value: UPDATE ... RETURNING on
// PostgreSQL and SQLite, and UPDATE with LAST_INSERT_ID(expr) on MySQL and MariaDB. Only the first claim of a
// counter, and one that is refused, needs others. When a claim returns it is committed, and a rollback of
// the application cannot undo it. The connections are those of package sqllease: with [WithDedicatedPool]
// the store keeps one of its own, and on a shared pool it makes sure that it is outside all transactions.
//
// # The table
//
// There is one row for each counter:
//
//	name       the name, the primary key
//	next       the first number that was not claimed yet
//	remainder  the residue that claims must have: numbers = remainder (mod modulus)
//	modulus    1 for a counter without a residue, 0 for one that is frozen
//	updated_at when the row was last written, by the writer's clock
//
// New makes the table, if it may. Otherwise its error holds the statement that does, which [DDL] returns
// too. The application needs SELECT, INSERT and UPDATE, and DELETE if it uses daily counters.
package sqlsegment
