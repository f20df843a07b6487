package gormlease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

func TestEveryRequestIsOneStatement(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		seen := &statements{}
		application := poolOf(t, target.Open(t, nil))
		pool := sql.OpenDB(counting{application, seen})
		t.Cleanup(func() { must(t, pool.Close()) })
		db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{Logger: logger.Discard})
		must(t, err)
		store := newStore(t, db)
		newStore(t, db)

		r := first(1)
		earliest, latest := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		for _, c := range []struct {
			verb string
			call func() (bool, error)
		}{
			{"SELECT", func() (bool, error) { _, err := store.Now(t.Context()); return true, err }},
			{"SELECT", func() (bool, error) { _, err := store.List(t.Context()); return true, err }},
			{"INSERT", func() (bool, error) { return store.Swap(t.Context(), lease.Record{}, r) }},
			{"UPDATE", func() (bool, error) { return store.Swap(t.Context(), r, following(r)) }},
			{"UPDATE", func() (bool, error) {
				return store.SwapWithin(t.Context(), following(r), following(following(r)), earliest, latest)
			}},
			{"INSERT", func() (bool, error) {
				return store.SwapWithin(t.Context(), lease.Record{}, first(2), earliest, latest)
			}},
		} {
			seen.reset()
			ok, err := c.call()
			if err != nil || !ok {
				t.Errorf("%s: %t, %v", c.verb, ok, err)
			}
			if all := seen.all(); len(all) != 1 || !strings.HasPrefix(all[0], c.verb) {
				t.Errorf("instead of one %s there were %q", c.verb, all)
			}
		}
	})
}

// Where the table is, New makes none and writes nothing.
func TestATableThatIsThereIsOnlyLookedAt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		seen := &statements{}
		pool := sql.OpenDB(counting{poolOf(t, target.Open(t, nil)), seen})
		t.Cleanup(func() { must(t, pool.Close()) })
		db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{Logger: logger.Discard})
		must(t, err)
		newStore(t, db)
		if !slices.ContainsFunc(seen.all(), isCreate) {
			t.Fatalf("the table was not made by %q", seen.all())
		}
		seen.reset()
		newStore(t, db, gormlease.Table("snowflake_nodes"))
		if slices.ContainsFunc(seen.all(), isCreate) || len(seen.all()) > 5 {
			t.Errorf("a table that is there took %q", seen.all())
		}
	})
}

func isCreate(statement string) bool { return strings.HasPrefix(statement, "CREATE") }

// statements are those that a database was sent.
type statements struct {
	mu   sync.Mutex
	sent []string // guarded by mu
}

func (s *statements) add(statement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, statement)
}

func (s *statements) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = nil
}

func (s *statements) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// counting is a driver on top of a pool, each of whose connections is one of that.
type counting struct {
	pool *sql.DB
	seen *statements
}

func (c counting) Driver() driver.Driver { return nil }

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.seen}, nil
}

type countingConn struct {
	conn *sql.Conn
	seen *statements
}

func (c countingConn) Close() error { return c.conn.Close() }

func (c countingConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("the store prepares nothing")
}

func (c countingConn) Begin() (driver.Tx, error) {
	c.seen.add("BEGIN")
	return nil, errors.New("the store needs no transaction")
}

func (c countingConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	c.seen.add(query)
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	return c.conn.ExecContext(ctx, query, values...)
}

func (c countingConn) QueryContext(
	ctx context.Context, query string, _ []driver.NamedValue,
) (driver.Rows, error) {
	c.seen.add(query)
	rows, err := c.conn.QueryContext(ctx, query) //nolint:rowserrcheck // countingRows.Next checks it
	if err != nil {
		return nil, err
	}
	return countingRows{rows}, nil
}

type countingRows struct{ rows *sql.Rows }

func (r countingRows) Columns() []string {
	names, err := r.rows.Columns()
	if err != nil {
		return nil
	}
	return names
}

func (r countingRows) Close() error { return r.rows.Close() }

func (r countingRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	values, to := make([]any, len(dest)), make([]any, len(dest))
	for i := range values {
		to[i] = &values[i]
	}
	err := r.rows.Scan(to...)
	for i, value := range values {
		dest[i] = value
	}
	return err
}
