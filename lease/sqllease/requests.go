package sqllease

import (
	"context"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.table.Now(ctx) }

// List returns all records.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	read := func(ctx context.Context, q sqlconn.Querier) ([]lease.Record, error) {
		_, rows, err := sqlconn.Query(ctx, q, s.sql.list)
		if err != nil {
			return nil, err
		}
		return records(rows)
	}
	return sqlconn.Request(ctx, s.table, sqlconn.Reads, "reading the records", read)
}

// Swap replaces a record, or makes the first of its node, with a single statement.
func (s *Store) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	return s.swap(ctx, prev, next, s.sql.create, s.sql.change)
}

// SwapWithin is Swap, but compares the clock of the database too, in the same statement.
func (s *Store) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	return s.swap(ctx, prev, next, s.sql.createWithin, s.sql.changeWithin,
		ceilMicros(earliest), floorMicros(latest))
}

func (s *Store) swap(
	ctx context.Context, prev, next lease.Record, create, change string, bounds ...any,
) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	args, err := argsOf(next)
	if err != nil {
		return false, err
	}
	statement := create
	if prev.Version != 0 {
		statement, args = change, append(args[1:], prev.Node, prev.Owner, prev.Version)
	}
	args = append(args, bounds...)
	what := fmt.Sprintf("writing the record of node %d", next.Node)
	write := func(ctx context.Context, q sqlconn.Querier) (bool, error) {
		result, err := q.ExecContext(ctx, statement, args...)
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		if err == nil && n > 1 {
			err = fmt.Errorf("%w of node %d: there are %d rows of it: %s", lease.ErrInvalidRecord, next.Node, n,
				remedyOfTwins)
		}
		return n == 1, err
	}
	return sqlconn.Request(ctx, s.table, sqlconn.Writes, what, write)
}

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. On SQLite it returns an error at once, because there is no server that could have lost a request.
// See [lease.Prober].
func (s *Store) Probe(ctx context.Context) error { return s.table.Probe(ctx) }
