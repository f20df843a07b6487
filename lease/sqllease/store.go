package sqllease

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// spanOfOneWriter is for databases and pools that one transaction can have to itself.
const spanOfOneWriter = 10 * time.Minute

// purpose is what the connections of a store are for.
const purpose = "lease"

// ConnectionName returns the name under which an administrator finds the connection of a store with
// a dedicated pool, such as "snowflakeplugin lease web-1:4711": the name of the machine and the
// number of the process. On PostgreSQL the store itself sets it as the application_name. On MySQL
// and MariaDB only the DSN can do that: connectionAttributes=program_name:NAME, percent-encoded.
func ConnectionName() string { return sqltable.ConnectionName(purpose) }

// Store is a [lease.Store] in a table. Make one with [New]; it must not be copied. Its methods are
// safe for concurrent use.
type Store struct{ table *sqltable.Table }

var (
	_ lease.Store         = (*Store)(nil)
	_ lease.WithinSwapper = (*Store)(nil)
	_ lease.Prober        = (*Store)(nil)
	_ lease.SpanHinter    = (*Store)(nil)
	_ lease.Identifier    = (*Store)(nil)
)

// New returns the store in the database of db and makes its table, if it is not there. It takes as
// long as ctx allows, and no longer than 30 s. (On SQLite it has to wait for the end of a transaction
// that writes, so do not call it from within one.)
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [lease.ErrStore], if the database does
// not answer. After an error db is open, even if it is dedicated to the store.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	opened, err := sqltable.Open(ctx, db, table(d), opts)
	if err != nil {
		return nil, err
	}
	return &Store{opened}, nil
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. The errors are those of New about options and databases.
func DDL(d Dialect, opts ...Option) (string, error) { return table(d).DDL(opts) }

// AuthorityDDL returns the statement that makes the table snowflake_authority beside the table of the
// leases, for those who make tables by other means. The errors are those of [New] about options and
// databases.
func AuthorityDDL(d Dialect, opts ...Option) (string, error) {
	spec, err := table(d).With(opts)
	if err != nil {
		return "", err
	}
	beside, _ := authority.In(string(d), nil).Beside(spec.Table)
	return beside.DDL(), nil
}

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.table.Now(ctx) }

// List returns all records.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	rows, err := s.table.List(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]lease.Record, len(rows))
	seen := make(map[int64]bool, len(rows))
	for i, row := range rows {
		r := &records[i]
		err := s.table.Scan(row, &r.Node, &r.Owner, &r.Until, &r.Version, &r.Layout, &r.UpdatedAt)
		if err == nil {
			err = r.Validate()
		}
		if err != nil {
			err = fmt.Errorf("%w: %s", err, remedyByHand)
		} else if seen[r.Node] {
			err = s.table.Twins(r.Node, 2)
		}
		if err != nil {
			return nil, s.table.Wrap("reading the records", err)
		}
		seen[r.Node] = true
	}
	return records, nil
}

const remedyByHand = "somebody changed it by hand; put it right while no process uses the node, with an " +
	"until that is after the last ID of the node"

// Swap replaces a record, or makes the first of its node, with a single statement.
func (s *Store) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return s.swap(ctx, prev, next, nil)
}

// SwapWithin is Swap, but compares the clock of the database too, in the same statement.
func (s *Store) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	return s.swap(ctx, prev, next, &sqltable.Bounds{Earliest: earliest, Latest: latest})
}

func (s *Store) swap(ctx context.Context, prev, next lease.Record, within *sqltable.Bounds) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	if prev.Version == 0 {
		return s.table.Swap(ctx, nil, rowOf(next), within)
	}
	return s.table.Swap(ctx, rowOf(prev), rowOf(next), within)
}

func rowOf(r lease.Record) sqltable.Row {
	return sqltable.Row{r.Node, r.Owner, r.Until, r.Version, r.Layout, r.UpdatedAt}
}

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. On SQLite it returns an error at once, because there is no server that could have lost a request.
// See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error { return s.table.Probe(ctx) }

// Identity returns the random identity of the table of leases, which lies in a row of that table. The first
// call notes it in the table snowflake_authority of the same schema, and makes that table. Any number of
// processes that call Identity at the same time get the same one.
//
// It returns an error wrapping snowflakeplugin.ErrAuthority, with the statement that makes the table, if
// the table cannot be made or used, and one wrapping [lease.ErrStore] if the database does not answer.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	read := func(ctx context.Context, q sqltable.Querier) (lease.Identity, error) {
		return authority.In(string(s.table.Kind()), q).Placed(s.table.Place()).
			Identity(ctx, authority.Leases, s.table.Name(), s.table.Identity())
	}
	// A transaction around all of it would keep the snapshot from before another process wrote the row.
	return sqltable.Request(ctx, s.table, sqltable.Alone, "reading its identity", read)
}

// Close closes the pool if it is dedicated to the store, and otherwise leaves it alone. Close the
// keepers first: afterwards the store's methods return an error wrapping [lease.ErrClosed]. It may
// be called more than once.
func (s *Store) Close() error { return s.table.Close() }

// SpanHint returns 10 minutes where one transaction of the application can keep the store from
// writing, so that windows outlast it: on SQLite, and on a shared pool that was limited to one
// connection when New was called. Otherwise it is 0, for the default of package lease. The windows of a
// process reach that length when it has lived as long; see [lease.WithSpan].
func (s *Store) SpanHint() time.Duration {
	if s.table.OneWriter() {
		return spanOfOneWriter
	}
	return 0
}

// Table returns the name of the table as it was named, with its schema if it was named with one.
func (s *Store) Table() string { return s.table.Name() }

// DDL returns the statement that makes the table.
func (s *Store) DDL() string { return s.table.DDL() }
