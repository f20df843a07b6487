package gormlease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const (
	shortestPause = time.Millisecond
	longestPause  = 100 * time.Millisecond
)

// querier is a pool, a connection or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return request(ctx, s, "reading the clock", func(ctx context.Context, q querier) (time.Time, error) {
		micros, err := number(ctx, q, s.sql.now)
		return time.UnixMicro(micros).UTC(), err
	})
}

// List returns all records.
func (s *Store) List(ctx context.Context) ([]lease.Record, error) {
	return request(ctx, s, "reading the records", func(ctx context.Context, q querier) ([]lease.Record, error) {
		_, rows, err := query(ctx, q, s.sql.list)
		if err != nil {
			return nil, err
		}
		return records(rows)
	})
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
	return request(ctx, s, what, func(ctx context.Context, q querier) (bool, error) {
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
	})
}

// request asks the database for something. What it is stands in the errors.
func request[T any](
	ctx context.Context, s *Store, what string, ask func(context.Context, querier) (T, error),
) (answer T, err error) {
	if s.closed.Load() {
		return answer, fmt.Errorf("%w: the store in table %s", lease.ErrClosed, s.table)
	}
	if ctx.Err() != nil {
		return answer, fmt.Errorf("gormlease: table %s: %s: %w", s.table, what, context.Cause(ctx))
	}
	switch {
	case s.dialect.embedded:
		answer, err = detached(ctx, func() (T, error) {
			return persist(ctx, func() (T, error) { return askEmbedded(ctx, s, ask) })
		})
	case s.inTransactions:
		answer, err = persist(ctx, func() (T, error) { return transact(ctx, s.pool, ask) })
	default:
		answer, err = persist(ctx, func() (T, error) { return ask(ctx, s.pool) })
	}
	if err == nil {
		return answer, nil
	}
	if !errors.Is(err, lease.ErrInvalidRecord) {
		s.reconnect()
	}
	var none T
	return none, fmt.Errorf("gormlease: table %s: %s: %w", s.table, what, explain(ctx, err))
}

// persist does something again, until the context ends, as long as the database rolls it back because
// somebody else was at work.
func persist[T any](ctx context.Context, do func() (T, error)) (answer T, err error) {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		if answer, err = do(); err == nil || !rolledBack(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
		}
	}
}

// rolledBack recognizes the errors after which nothing was done for sure, and which are over when
// somebody else is ready: SQLite's of a lock, and those of transactions that could not be put in an
// order. Each driver of SQLite has a type of its own, so it is the text that tells.
func rolledBack(err error) bool {
	const serializationFailure = "40001"
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState() == serializationFailure
	}
	said := err.Error()
	return errors.Is(err, errElsewhere) ||
		strings.Contains(said, "database is locked") || strings.Contains(said, "table is locked") ||
		strings.Contains(said, "SQLITE_BUSY")
}

// transact asks in a transaction of its own.
func transact[T any](
	ctx context.Context, pool *sql.DB, ask func(context.Context, querier) (T, error),
) (answer T, err error) {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return answer, err
	}
	if answer, err = ask(ctx, tx); err != nil {
		return answer, errors.Join(err, tx.Rollback())
	}
	return answer, tx.Commit()
}

// reconnect gives up the store's own connection after an error. It may lead to a server that has
// become a replica, and would as long as it is used.
func (s *Store) reconnect() {
	if s.own {
		s.pool.SetMaxIdleConns(0)
		s.pool.SetMaxIdleConns(1)
	}
}

// explain says that time is what was lacking, which not every driver does.
func explain(ctx context.Context, err error) error {
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

// query reads all rows of a statement without arguments, as the driver gives the values, and the
// names of their columns.
func query(ctx context.Context, q querier, statement string) (names []string, all [][]any, err error) {
	rows, err := q.QueryContext(ctx, statement)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if names, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	for rows.Next() {
		row, dest := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, nil, err
		}
		all = append(all, row)
	}
	return names, all, rows.Err()
}

// number asks for a single number.
func number(ctx context.Context, q querier, statement string) (int64, error) {
	_, rows, err := query(ctx, q, statement)
	if err != nil {
		return 0, err
	}
	if len(rows) == 1 && len(rows[0]) == 1 {
		if n, ok := integer(rows[0][0]); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the answer to %s is not a number: %v", statement, rows)
}
