package gormlease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const (
	// setUpTimeout bounds what New does, beside the context of its *gorm.DB.
	setUpTimeout = 30 * time.Second

	// spanOfOneWriter is for databases and pools that one transaction can have to itself.
	spanOfOneWriter = 10 * time.Minute
)

// Store is a [lease.Store] in a table. Make one with [New]; it must not be copied. Its methods are
// safe for concurrent use.
type Store struct {
	pool    *sql.DB
	own     bool // the pool was opened by New
	dialect dialect
	table   string // as it was named, for messages
	sql     statements
	closed  atomic.Bool

	// inTransactions means that a statement alone would not be committed.
	inTransactions bool
	// scattered means that each connection may be a database of its own: SQLite in memory.
	scattered bool
	span      time.Duration
}

var (
	_ lease.Store         = (*Store)(nil)
	_ lease.WithinSwapper = (*Store)(nil)
	_ lease.SpanHinter    = (*Store)(nil)
)

// New returns the store in the database of db and makes its table, if it is not there. db may be
// any handle on that database, a transaction too: the store does not become part of it. (On SQLite
// New has to wait for the end of one that writes, so do not call it from within.) New waits as long
// as the context of db allows, and no longer than 30 s.
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [lease.ErrStore], if the database does
// not answer.
func New(db *gorm.DB, opts ...Option) (*Store, error) {
	s, err := prepare(db, opts)
	if err != nil {
		return nil, err
	}
	if err := s.connect(db); err != nil {
		return nil, err
	}
	ctx := context.Background()
	if db.Statement != nil && db.Statement.Context != nil {
		ctx = db.Statement.Context
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if err := s.setUp(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. It asks nothing of the database. The errors are those of New
// about options and databases.
func DDL(db *gorm.DB, opts ...Option) (string, error) {
	s, err := prepare(db, opts)
	if err != nil {
		return "", err
	}
	return s.sql.ddl, nil
}

// prepare is what a store knows before it is connected.
func prepare(db *gorm.DB, opts []Option) (*Store, error) {
	if db == nil || db.Config == nil || db.Dialector == nil || db.NamingStrategy == nil {
		return nil, fmt.Errorf("%w: the *gorm.DB is nil, or does not come from gorm.Open", ErrDatabase)
	}
	c, err := configure(db, opts)
	if err != nil {
		return nil, err
	}
	d, err := dialectOf(db)
	if err != nil {
		return nil, err
	}
	return &Store{dialect: d, table: c.table, sql: d.statements(db, c.table)}, nil
}

// Close closes the connection that the store opened, if it did, and leaves the application's pool
// alone. Close the keepers first: afterwards the store's methods return an error wrapping
// [lease.ErrClosed]. It may be called more than once.
func (s *Store) Close() error {
	if s.closed.Swap(true) || !s.own {
		return nil
	}
	if err := s.pool.Close(); err != nil {
		return fmt.Errorf("gormlease: closing the connection for table %s: %w", s.table, err)
	}
	return nil
}

// SpanHint returns 10 minutes where one transaction of the application can keep the store from
// writing, so that windows outlast it: on SQLite, and on a shared pool that was limited to one
// connection when New was called. Otherwise it is 0, for the default of package lease. The price
// is that the number of a process that was killed stays taken for that long.
func (s *Store) SpanHint() time.Duration { return s.span }

// DDL returns the statement that makes the table.
func (s *Store) DDL() string { return s.sql.ddl }
