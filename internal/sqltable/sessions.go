package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

const (
	minPause = time.Millisecond
	maxPause = 100 * time.Millisecond

	// maxDead is how many connections a request may find dead.
	maxDead = 3
)

// A Kind says what a request does to the table.
type Kind int

// The kinds of requests.
const (
	Aside    Kind = iota // it touches no table, so no transaction can matter to it
	Reads                // it reads the table
	Writes               // it writes to the table: once it is answered it is committed
	Alone                // it writes, but each of its statements has to be a transaction of its own
	Together             // it writes, and its statements have to be one transaction; on MySQL alone
	probes               // it is answered while another request is not: see Table.Probe
)

var (
	// ErrInTransaction means that the connection is inside a transaction that somebody else began.
	// What is written there is undone if he rolls back, and what is read may be old.
	ErrInTransaction = errors.New("the connection is inside a transaction, which the application began with " +
		"a statement of its own instead of BeginTx")

	// errElsewhere means that a connection led to another database, an empty one.
	errElsewhere = errors.New("a transaction holds the connection to the database in memory")

	// ErrPooler is a cause that the errors of drivers do not name.
	ErrPooler = errors.New("a connection pooler such as PgBouncer")

	// ErrFull is another one, with what to do.
	ErrFull = errors.New("the disk of the database is full, or the database has its greatest size: make room")

	// ErrReadOnly is one of a server. A file that is read-only stays so, and is the fault of its rights.
	ErrReadOnly = errors.New("the database takes no writes: the connection leads to a replica, or to a " +
		"server that is read-only, as in a failover; let it lead to the primary")
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Request asks the database for something. What it is stands in the errors.
func Request[T any](
	ctx context.Context, t *Table, k Kind, what string, ask func(context.Context, Querier) (T, error),
) (answer T, err error) {
	c := &t.spec
	if t.closed.Load() {
		return answer, fmt.Errorf("%w: the store in table %s", c.ErrClosed, c.Table)
	}
	if ctx.Err() != nil {
		return answer, t.Wrap(what, context.Cause(ctx))
	}
	do := func() (answer T, err error) { // one that is given up goes on, with an answer of its own
		err = Persist(ctx, func() error {
			return t.once(ctx, k, func(ctx context.Context, q Querier) (err error) {
				answer, err = ask(ctx, q)
				return err
			})
		})
		return answer, err
	}
	if c.Dialect.Embedded() {
		answer, err = attempt.Detached(ctx, do)
	} else {
		answer, err = do()
	}
	if err == nil {
		return answer, nil
	}
	var none T
	return none, t.Wrap(what, t.explain(ctx, err))
}

// Persist does something again, until the context ends, as long as nothing was done because somebody
// else was at work. It also tries again if a connection turns out to be dead before it was used, as
// often as database/sql itself does.
func Persist(ctx context.Context, do func() error) error {
	var busy error
	dead := 0
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := do()
		if err == nil {
			return nil
		}
		if errors.Is(err, driver.ErrBadConn) && dead < maxDead {
			dead++
			continue
		}
		if !rolledBack(err) {
			if busy != nil && ctx.Err() != nil {
				err = busy // which says more than that the time is over
			}
			return err
		}
		busy = err
		if attempt.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// rolledBack recognizes the errors after which nothing was done for sure, and which are over when somebody
// else is ready. All that a request has begun is rolled back.
func rolledBack(err error) bool {
	return dialect.Busy(err) || errors.Is(err, errElsewhere) || errors.Is(err, ErrInTransaction)
}

// explain says what the driver does not: that time was lacking, or a cause that is known.
func (t *Table) explain(ctx context.Context, err error) error {
	if err = Translate(err); isClosed(err) {
		return fmt.Errorf("%w: %w", t.spec.ErrClosed, err)
	}
	if errors.Is(err, ErrPooler) {
		return fmt.Errorf("%w: %w", t.spec.ErrDatabase, err)
	}
	if ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return fmt.Errorf("no answer in time, perhaps because a transaction holds a lock or the last "+
			"connection: %w", err)
	}
	return fmt.Errorf("no answer in time, perhaps because a transaction holds a lock or the last "+
		"connection: %w: %w", cause, err)
}

// isClosed recognizes the error of a pool that was closed. It has no name.
func isClosed(err error) bool { return strings.Contains(err.Error(), "sql: database is closed") }

// Translate wraps an error of a driver with the cause, where one of those above is known.
func Translate(err error) error {
	switch {
	case dialect.Unprepared(err):
		return fmt.Errorf("%w in transaction mode gives each transaction another connection, on which the "+
			"statements that pgx has prepared are not known; add default_query_exec_mode=exec (or "+
			"simple_protocol) to the DSN: %w", ErrPooler, err)
	case dialect.Undivided(err):
		return fmt.Errorf("%w in statement mode lets no transaction through; set it to transaction mode, or "+
			"make the tables of the plugin over a connection of the server's own first: %w", ErrPooler, err)
	case dialect.Full(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case dialect.ReadOnly(err) && dialect.State(err) != "SQLITE_READONLY":
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}

// once asks once, on one connection, in such a way that nothing it writes can be undone once it
// is answered:
//
//   - A connection of the store's own commits each statement by itself, and reads nothing that is not
//     committed. The store sets that on each physical connection, because a new one begins as the server or
//     the DSN wants it.
//   - A connection of a pool that is shared may be in any state. So the store checks that it is
//     outside all transactions, and where autocommit can be switched off it uses a transaction.
//   - On SQLite every request is a transaction, because SQLite refuses one within another one.
func (t *Table) once(ctx context.Context, k Kind, ask func(context.Context, Querier) error) (err error) {
	if t.turn != nil && k != probes {
		select {
		case t.turn <- struct{}{}:
			defer func() { <-t.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	conn, err := t.connect(ctx, k)
	if err != nil {
		return err
	}
	defer func() {
		// After an error a connection of the store's own is given up. It may lead to a server that has become
		// a replica, and would as long as it is used.
		if err != nil && t.spec.Dedicated && !errors.Is(err, t.spec.ErrRow) && !rolledBack(err) {
			discard(conn)
		}
		if closing := conn.Close(); !errors.Is(closing, sql.ErrConnDone) {
			err = errors.Join(err, closing)
		}
	}()
	switch {
	case k == probes, k == Aside, k == Alone && t.spec.Dialect.Embedded(): // it begins a transaction itself
		return ask(ctx, conn)
	case t.spec.Dialect.Embedded():
		return t.askEmbedded(ctx, conn, k, ask)
	case t.spec.Dedicated && k != Together:
		return ask(ctx, conn)
	}
	if t.spec.Dialect.Autocommits && k != Alone {
		return Transact(ctx, conn, ask)
	}
	if err := t.outsideTransactions(ctx, conn); err != nil {
		return err
	}
	return ask(ctx, conn)
}

// connect returns a connection for one attempt. To connect takes several requests to the server, so it may
// take longer than an attempt may, and then no attempt would ever get through. So a connection that an
// attempt could not wait for is made without it, once more and with more time, and serves a later one.
func (t *Table) connect(ctx context.Context, k Kind) (*sql.Conn, error) {
	if t.spec.Dialect.Embedded() || k == probes {
		return t.open(ctx, k)
	}
	if t.pool.Stats().Idle > 0 {
		conn, err := t.open(ctx, k)
		return conn, t.late(ctx, err)
	}
	type outcome struct {
		conn *sql.Conn
		err  error
	}
	own := make(chan outcome, 1)
	go func() {
		conn, err := t.open(ctx, k)
		own <- outcome{conn, err}
	}()
	select {
	case o := <-own:
		return o.conn, t.late(ctx, o.err)
	case conn := <-t.aside:
		go func() {
			if o := <-own; o.err == nil {
				_ = o.conn.Close() // it goes back to the pool
			}
		}()
		return conn, nil
	}
}

// late returns the error of connecting. If there was no time, a connection is made for a later attempt.
func (t *Table) late(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		t.connectAside() //nolint:contextcheck // it outlives the attempt
	}
	return err
}

// connectAside makes a connection for a later attempt, unless that is under way.
func (t *Table) connectAside() {
	if t.connecting.Swap(true) {
		return
	}
	go func() {
		defer t.connecting.Store(false)
		ctx, cancel := context.WithTimeout(t.lifetime, setUpTimeout)
		defer cancel()
		conn, err := t.open(ctx, Writes)
		if err != nil {
			return // the next attempt finds out for itself
		}
		select {
		case t.aside <- conn: // an attempt waits at this moment
		default:
			_ = conn.Close() // it goes back to the pool
		}
	}()
}

// open returns a connection that is prepared.
func (t *Table) open(ctx context.Context, k Kind) (*sql.Conn, error) {
	conn, err := t.pool.Conn(ctx)
	if err == nil && t.scattered {
		return t.unscattered(ctx, conn)
	}
	if err != nil || !t.spec.Dedicated || k == probes {
		return conn, err
	}
	if err := t.prepareConn(ctx, conn); err != nil {
		discard(conn)
		return nil, err
	}
	return conn, nil
}

// unscattered returns a connection to a database in memory, unless it was opened while the application had
// the first one. Then it leads to a database of its own, an empty one, and must not stay in the pool: the
// application would find it there, and the pool might close the first one in its place.
func (t *Table) unscattered(ctx context.Context, conn *sql.Conn) (*sql.Conn, error) {
	tables, err := number(context.WithoutCancel(ctx), conn, "SELECT count(*) FROM sqlite_master")
	if err == nil && tables > 0 {
		return conn, nil
	}
	discard(conn)
	return nil, errors.Join(err, errElsewhere)
}

// prepareConn sets what the store needs on a physical connection of its own that it has not met yet.
// database/sql renews connections whenever it likes to.
func (t *Table) prepareConn(ctx context.Context, conn *sql.Conn) error {
	known := false
	var physical any
	err := conn.Raw(func(c any) error {
		physical, known = c, t.isPrepared(c)
		return nil
	})
	if err != nil || known {
		return err
	}
	for _, statement := range preparing(t.spec.Dialect) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if t.spec.Dialect.Title != "" {
		// The name is for people only, so the store does without it where it cannot be set.
		_, err := conn.ExecContext(ctx, fmt.Sprintf(t.spec.Dialect.Title, ConnectionName(t.spec.Purpose)))
		if err != nil && ctx.Err() != nil {
			return err
		}
	}
	t.prepared.Store(&physical)
	return nil
}

// ownTransaction is what MySQL's transactions of a store need, whatever the session of the application is set
// to. A session may read rows that are never committed, or write nothing. Statements that change rows cannot
// be logged as statements in a level that is weaker than this one.
const ownTransaction = "TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE"

// preparing are the statements that a connection of the store's own begins with.
func preparing(d dialect.Dialect) []string {
	switch {
	case d.Autocommits:
		return []string{"SET autocommit = 1", "SET SESSION " + ownTransaction}
	case d.Embedded():
		// A request that has to wait tries again by itself, and ends with its context.
		return []string{"PRAGMA busy_timeout = 250"}
	}
	return nil
}

// isPrepared tells whether a physical connection is the last one that was prepared. The store keeps a
// reference to that, so no other connection can get the same address.
func (t *Table) isPrepared(physical any) bool {
	last := t.prepared.Load()
	return last != nil && reflect.TypeOf(physical).Comparable() && *last == physical
}

// outsideTransactions returns ErrInTransaction if the connection is inside a transaction. It needs no
// rights, and neither commits the transaction nor does any other harm to it.
func (t *Table) outsideTransactions(ctx context.Context, conn *sql.Conn) error {
	if t.spec.Dialect.Autocommits {
		return setTransaction(ctx, conn)
	}
	// A setting that is local to a transaction is gone in the next statement, unless both statements
	// are in the same transaction.
	const set = "SELECT set_config('snowflakeplugin.transaction', 'open', true)"
	const isSet = "SELECT CASE current_setting('snowflakeplugin.transaction', true) " +
		"WHEN 'open' THEN 1 ELSE 0 END"
	if _, err := conn.ExecContext(ctx, set); err != nil {
		return err
	}
	open, err := number(ctx, conn, isSet)
	if err == nil && open != 0 {
		err = ErrInTransaction
	}
	return err
}

// setTransaction makes the next transaction of a session of MySQL one of the store's own, or returns
// ErrInTransaction. MySQL has no @@in_transaction, and its tables about transactions need rights.
func setTransaction(ctx context.Context, conn *sql.Conn) error {
	const inProgress = "1568" // within a transaction the statement is an error
	_, err := conn.ExecContext(ctx, "SET "+ownTransaction)
	if err != nil && strings.Contains(err.Error(), inProgress) {
		return ErrInTransaction
	}
	return err
}

// alone ends a transaction of MySQL without the next one, which the session may be set to begin then.
const alone = " AND NO CHAIN NO RELEASE"

// Transact asks MySQL in a transaction of its own, which commits even where autocommit is switched off. It
// returns an error if the connection is inside a transaction of somebody else. It does not use BeginTx,
// because the driver waits for the answer to COMMIT and ROLLBACK without a limit.
func Transact(ctx context.Context, conn *sql.Conn, ask func(context.Context, Querier) error) error {
	if err := setTransaction(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	err := ask(ctx, conn)
	if err == nil {
		if _, err = conn.ExecContext(ctx, "COMMIT"+alone); err == nil {
			return nil
		}
	}
	// A transaction that did not end must not be left in the pool for the application to find.
	if _, failed := conn.ExecContext(ctx, "ROLLBACK"+alone); failed != nil {
		discard(conn)
	}
	return err
}

// askEmbedded asks in a transaction of SQLite. It does not use BeginTx, after which database/sql may
// close a connection whose context has ended, and a database in memory with it.
func (t *Table) askEmbedded(
	ctx context.Context, conn *sql.Conn, k Kind, ask func(context.Context, Querier) error,
) error {
	begin := "BEGIN"
	if k == Writes {
		begin = "BEGIN IMMEDIATE"
	}
	// The transaction has to end, whatever becomes of the request.
	lasting := context.WithoutCancel(ctx)
	_, err := conn.ExecContext(ctx, begin)
	if err != nil && strings.Contains(err.Error(), "within a transaction") {
		return ErrInTransaction
	}
	if err == nil {
		err = ask(ctx, conn)
	}
	if err == nil {
		_, err = conn.ExecContext(lasting, "COMMIT")
	}
	if err != nil {
		t.rollBack(lasting, conn) // also if it did not begin: a driver may say that its time is over when it has
	}
	return err
}

// rollBack ends the store's transaction on SQLite. After some errors SQLite has ended it already.
func (t *Table) rollBack(ctx context.Context, conn *sql.Conn) {
	_, err := conn.ExecContext(ctx, "ROLLBACK")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") && !t.scattered {
		discard(conn)
	}
}

// discard closes the physical connection instead of giving it back to the pool.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }
