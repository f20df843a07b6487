package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// spanOfOneWriter is for databases and pools that one transaction can have to itself.
const spanOfOneWriter = 10 * time.Minute

// Store is a [lease.Store] in a table. Make one with [New]; it must not be copied. Its methods are
// safe for concurrent use.
type Store struct {
	table   *sqlconn.Table
	dialect dialect.Dialect
	sql     statements
}

var (
	_ lease.Store         = (*Store)(nil)
	_ lease.WithinSwapper = (*Store)(nil)
	_ lease.Prober        = (*Store)(nil)
	_ lease.SpanHinter    = (*Store)(nil)
)

// New returns the store in the database of db and makes its table, if it is not there. It takes as
// long as ctx allows, and no longer than 30 s. (On SQLite it has to wait for the end of a transaction
// that writes, so do not call it from within one.)
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [lease.ErrStore], if the database does
// not answer. After an error db is open, even if it is dedicated to the store.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	properties, c, err := configure(d, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: properties, sql: statementsFor(properties, c.table)}
	s.table, err = sqlconn.Open(ctx, db, sqlconn.Config{
		Package: "sqllease", Purpose: purpose, Name: c.table, Rights: "SELECT, INSERT and UPDATE",
		Dialect: properties, Dedicated: c.dedicated,
		DDL: s.sql.ddl, Columns: s.sql.columns, Trials: s.sql.trials, Keys: s.sql.keys, Key: names()[columnNode],
		ErrTable: ErrTable, ErrDatabase: ErrDatabase, ErrStore: lease.ErrStore, ErrClosed: lease.ErrClosed,
		Refusal: func(err error) bool { return errors.Is(err, lease.ErrInvalidRecord) },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
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

// Close closes the pool if it is dedicated to the store, and otherwise leaves it alone. Close the
// keepers first: afterwards the store's methods return an error wrapping [lease.ErrClosed]. It may
// be called more than once.
func (s *Store) Close() error { return s.table.Close() }

// SpanHint returns 10 minutes where one transaction of the application can keep the store from
// writing, so that windows outlast it: on SQLite, and on a shared pool that was limited to one
// connection when New was called. Otherwise it is 0, for the default of package lease. The price
// is that the number of a process that was killed stays taken for that long.
func (s *Store) SpanHint() time.Duration {
	if s.table.OneWriter() {
		return spanOfOneWriter
	}
	return 0
}

// Table returns the name of the table as it was named, with its schema if it was named with one.
func (s *Store) Table() string { return s.table.Name() }

// DDL returns the statement that makes the table.
func (s *Store) DDL() string { return s.sql.ddl }

// configure returns what is known of a dialect, and applies the options over the defaults. It reports
// all faults at once.
func configure(d Dialect, opts []Option) (dialect.Dialect, config, error) {
	properties, unknown := d.properties()
	c := config{table: defaultTable}
	faults := []error{unknown}
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, fmt.Errorf("%w: option %d is nil", ErrOption, i))
			continue
		}
		faults = append(faults, opt.apply(&c))
	}
	return properties, c, errors.Join(faults...)
}
