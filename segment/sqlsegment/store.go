package sqlsegment

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Purpose is in the name of the store's connection: "snowflakeplugin segment web-1:4711".
const purpose = "segment"

// Store is a [segment.Store] in a table. Make one with [New]; it must not be copied. Its methods are
// safe for concurrent use.
type Store struct {
	table   *sqlconn.Table
	dialect dialect.Dialect
	sql     statements
}

var (
	_ segment.TermsStore = (*Store)(nil)
	_ segment.Ledger     = (*Store)(nil)
	_ segment.Prober     = (*Store)(nil)
)

// New returns the store in the database of db and makes its table, if it is not there. It takes as
// long as ctx allows, and no longer than 30 s. (On SQLite it has to wait for the end of a transaction
// that writes, so do not call it from within one.)
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [segment.ErrStore], if the database does
// not answer. After an error db is open, even if it is dedicated to the store.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	properties, c, err := configure(d, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: properties, sql: statementsFor(properties, c.table)}
	s.table, err = sqlconn.Open(ctx, db, sqlconn.Config{
		Package: "sqlsegment", Purpose: purpose, Name: c.table,
		Rights:  "SELECT, INSERT and UPDATE, and DELETE for daily counters,",
		Dialect: properties, Dedicated: c.dedicated,
		DDL: s.sql.ddl, Columns: s.sql.columns, Trials: s.sql.trials, Keys: s.sql.keys, Key: "name",
		ErrTable: ErrTable, ErrDatabase: ErrDatabase, ErrStore: segment.ErrStore, ErrClosed: segment.ErrClosed,
		Refusal: refused,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// refused tells whether an error is about the counter and not about the connection.
func refused(err error) bool {
	for _, sentinel := range []error{
		segment.ErrResidue, segment.ErrFull, segment.ErrFrozen, segment.ErrInvalidCounter, errBusy,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. The errors are those of New about options and databases.
func DDL(d Dialect, opts ...Option) (string, error) {
	properties, c, err := configure(d, opts)
	if err != nil {
		return "", err
	}
	return statementsFor(properties, c.table).ddl, nil
}

// DDL returns the statement that makes the table.
func (s *Store) DDL() string { return s.sql.ddl }

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.table.Now(ctx) }

// Close closes the pool if it is dedicated to the store, and otherwise leaves it alone. Close the
// sources first: afterwards the store's methods return an error wrapping [segment.ErrClosed]. It may
// be called more than once.
func (s *Store) Close() error { return s.table.Close() }
