package gormlease

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/gormpool"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
)

// Store is a [lease.Store] in a table. Make one with [New]; it must not be copied. Its methods are
// safe for concurrent use.
type Store struct {
	records *sqllease.Store
	pool    *sql.DB // the one that records works on
	own     bool    // New has opened it
}

var (
	_ lease.Store         = (*Store)(nil)
	_ lease.WithinSwapper = (*Store)(nil)
	_ lease.Prober        = (*Store)(nil)
	_ lease.SpanHinter    = (*Store)(nil)
	_ lease.Identifier    = (*Store)(nil)
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
	if _, err := DDL(db, opts...); err != nil {
		return nil, err
	}
	records, pool, own, err := gormpool.Open(db, gormpool.Config{
		Package: "gormlease", Option: "WithLease", Purpose: "lease", ErrDatabase: ErrDatabase,
	}, func(ctx context.Context, pool *sql.DB, own bool) (*sqllease.Store, error) {
		all := unwrap(opts)
		if own {
			all = append(all, sqllease.WithDedicatedPool())
		}
		return sqllease.New(ctx, pool, sqllease.Dialect(db.Name()), all...)
	})
	if err != nil {
		return nil, err
	}
	return &Store{records: records, pool: pool, own: own}, nil
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. It asks nothing of the database. The errors are those of New
// about options and databases.
func DDL(db *gorm.DB, opts ...Option) (string, error) {
	if db == nil || db.Config == nil || db.Dialector == nil {
		return "", fmt.Errorf("%w: the *gorm.DB is nil, or does not come from gorm.Open", ErrDatabase)
	}
	return sqllease.DDL(sqllease.Dialect(db.Name()), unwrap(opts)...)
}

// AuthorityDDL returns the statement that makes the table snowflake_authority beside the table of the
// store that [New] would return, for those who make tables by other means. It asks nothing of the
// database. The errors are those of New about options and databases.
func AuthorityDDL(db *gorm.DB, opts ...Option) (string, error) {
	if db == nil || db.Config == nil || db.Dialector == nil {
		return "", fmt.Errorf("%w: the *gorm.DB is nil, or does not come from gorm.Open", ErrDatabase)
	}
	return sqllease.AuthorityDDL(sqllease.Dialect(db.Name()), unwrap(opts)...)
}

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.records.Now(ctx) }

// List returns all records.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) { return s.records.List(ctx) }

// Swap replaces a record, or makes the first of its node, with a single statement. When it returns
// true the change is committed.
func (s *Store) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return s.records.Swap(ctx, prev, next)
}

// SwapWithin is Swap, but compares the clock of the database too, in the same statement.
func (s *Store) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	return s.records.SwapWithin(ctx, prev, next, earliest, latest)
}

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. On SQLite it returns an error at once. See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error { return s.records.Probe(ctx) }

// Identity returns the random identity of the table of leases, which lies in the table
// snowflake_authority of the same schema. The errors are those of [sqllease.Store.Identity].
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) { return s.records.Identity(ctx) }

// Close closes the connection that the store opened, if it did, and leaves the application's pool
// alone. Close the keepers first: afterwards the store's methods return an error wrapping
// [lease.ErrClosed]. It may be called more than once.
func (s *Store) Close() error { return s.records.Close() }

// SpanHint returns 10 minutes where one transaction of the application can keep the store from
// writing, so that windows outlast it: on SQLite, and on a shared pool that was limited to one
// connection when New was called. Otherwise it is 0, for the default of package lease. The windows of a
// process reach that length when it has lived as long; see [lease.WithSpan].
func (s *Store) SpanHint() time.Duration { return s.records.SpanHint() }

// Table returns the name of the table as it was named, with its schema if it was named with one.
func (s *Store) Table() string { return s.records.Table() }

// DDL returns the statement that makes the table.
func (s *Store) DDL() string { return s.records.DDL() }
