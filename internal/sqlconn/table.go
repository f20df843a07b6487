package sqlconn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

const (
	// setUpTimeout bounds what Open does, beside its context.
	setUpTimeout = 30 * time.Second
	// connectionLifetime makes sure that a store comes to the right server after one of them has
	// become another's replica or got another address.
	connectionLifetime = 5 * time.Minute
)

// Config is what a table is for.
type Config struct {
	Package string // of the store, for messages
	Purpose string // one word for the name of the connection
	Name    string // of the table, as the user gave it, for messages
	Rights  string // what an application needs on the table: SELECT, INSERT and UPDATE
	Dialect dialect.Dialect
	// Dedicated means that nobody else uses the pool.
	Dedicated bool

	// DDL makes the table.
	DDL string
	// Columns fails unless the table is there with all its columns. The trials fail unless it can be
	// written to, and write nothing.
	Columns string
	Trials  []string
	// Keys lists the indexes of the table, where no trial finds out that the one on the column Key is
	// missing.
	Keys, Key string

	// The sentinels of the store's package.
	ErrTable, ErrDatabase, ErrStore, ErrClosed error
	// Refusal tells whether an error is an answer of the store itself, so that the connection is good.
	Refusal func(error) bool
}

// Table is a table that a store works on. Make one with [Open]; it must not be copied. Its methods are safe
// for concurrent use.
type Table struct {
	pool   *sql.DB
	config Config
	closed atomic.Bool
	// turn is held by a request on a dedicated pool, unless that is a probe.
	turn chan struct{}
	// aside hands over a connection that was made for a later attempt to one that waits for its own.
	aside      chan *sql.Conn
	connecting atomic.Bool // such a connection is being made
	lifetime   context.Context
	end        context.CancelFunc // ends lifetime
	// prepared is the last physical connection of a dedicated pool that was prepared.
	prepared atomic.Pointer[any]
	// scattered means that each connection may be a database of its own: SQLite in memory.
	scattered bool
	oneWriter bool
}

// Open returns the table in the database of db and makes it, if it is not there. It takes as long as ctx
// allows, and no longer than 30 s. It returns an error wrapping ErrTable, ErrDatabase or ErrStore of c.
func Open(ctx context.Context, db *sql.DB, c Config) (*Table, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: the *sql.DB is nil", c.ErrDatabase)
	}
	t := &Table{pool: db, config: c, aside: make(chan *sql.Conn)}
	t.lifetime, t.end = context.WithCancel(context.WithoutCancel(ctx))
	if c.Dedicated {
		// Requests are short and few, so one connection is enough. It is kept, because it is needed
		// when there are no more to be had. The second is for a probe, while there is no answer on the
		// first, and the third for connectAside. SQLite has no server to run out of connections, and an
		// open file would be in the way of an application that moves or removes it.
		t.turn = make(chan struct{}, 1)
		db.SetMaxOpenConns(3)
		db.SetMaxIdleConns(t.idleConns())
		db.SetConnMaxLifetime(connectionLifetime)
	}
	t.oneWriter = c.Dialect.Embedded || !c.Dedicated && db.Stats().MaxOpenConnections == 1
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if err := t.setUp(ctx); err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// idleConns is how many connections a dedicated pool keeps.
func (t *Table) idleConns() int {
	if t.config.Dialect.Embedded {
		return 0
	}
	return 1
}

// OneWriter tells whether one transaction of the application can keep the store from writing: on SQLite,
// and on a shared pool that was limited to one connection when Open was called.
func (t *Table) OneWriter() bool { return t.oneWriter }

// Name returns the name of the table as the user gave it.
func (t *Table) Name() string { return t.config.Name }

// DDL returns the statement that makes the table.
func (t *Table) DDL() string { return t.config.DDL }

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (t *Table) Now(ctx context.Context) (time.Time, error) {
	return Request(ctx, t, Aside, "reading the clock", func(ctx context.Context, q Querier) (time.Time, error) {
		micros, err := Number(ctx, q, "SELECT "+t.config.Dialect.Clock)
		return time.UnixMicro(micros).UTC(), err
	})
}

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. It returns an error at once on SQLite, because there is no server that could have lost a request,
// and on a shared pool of one connection.
func (t *Table) Probe(ctx context.Context) error {
	if t.oneWriter {
		return fmt.Errorf("%s: %w: there is no other connection to a server",
			t.config.Package, errors.ErrUnsupported)
	}
	probe := func(ctx context.Context, q Querier) (int64, error) { return Number(ctx, q, "SELECT 1") }
	_, err := Request(ctx, t, probes, "probing the server", probe)
	return err
}

// Close closes the pool if it is dedicated to the store, and otherwise leaves it alone. Requests fail with
// ErrClosed from then on. It may be called more than once.
func (t *Table) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.end()
	if !t.config.Dedicated {
		return nil
	}
	if err := t.pool.Close(); err != nil {
		return fmt.Errorf("%s: closing the connection for table %s: %w", t.config.Package, t.config.Name, err)
	}
	return nil
}
