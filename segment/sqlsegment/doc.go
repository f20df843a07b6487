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
// counter, one that is refused, and those on a table of MySQL with triggers need others; the first of these
// leaves a gap. When a claim returns it is committed, and a rollback of the application cannot undo it. The
// connections are those of package sqllease: with [WithDedicatedPool]
// the store keeps one of its own, and on a shared pool it makes sure that it is outside all transactions.
//
// # The table
//
// There is one row for each counter:
//
//	name       the name, the primary key
//	next       the first number that was not claimed yet
//	remainder  the residue that claims must have: numbers = remainder (mod modulus)
//	modulus    1 for a counter without a residue, 0 for one that is frozen or went back, as the kind tells
//	updated_at when the row was last written, by the writer's clock
//	kind       segment, or daily for the counter of a day; empty until a version that knows it has claimed
//	identity   that of the table; empty in a row that an earlier version has made
//
// New makes the table, if it may, and adds the last two columns to one that an earlier version has made.
// Otherwise its error holds the statement that does. [DDL] returns the one that makes the table. The
// application needs SELECT, INSERT and UPDATE, and DELETE if it uses daily counters.
//
// # The identity
//
// The row with an empty name, which no counter can have, carries the random identity of the table. Earlier
// versions see a counter that is frozen. A store reads it in New. The statement of a claim compares the
// identity of the counter's row, and that of a counter's first claim that the row with the identity is there.
// So a table that was dropped, emptied or made anew while programs run grants them nothing: claims fail with
// [segment.ErrWentBack] until an operator has put it right, by a statement that the error has. Once
// [Store.Identity] has noted the identity, as the plugin does for columns with numbers, New makes no other
// one for a table of this name.
package sqlsegment
