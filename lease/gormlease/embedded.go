package gormlease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
)

// detached does something but does not wait for a driver that, while it waits for a lock, does not
// look at the context: the request is left to itself then.
func detached[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := do()
		done <- outcome{answer, err}
	}()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// errElsewhere means that a connection led to another database, an empty one.
var errElsewhere = errors.New("a transaction holds the connection to the database in memory")

// askEmbedded asks on one connection. One that was opened to a database in memory while the first
// was taken leads nowhere, and must not be left in the pool for the application to find.
func askEmbedded[T any](
	ctx context.Context, s *Store, ask func(context.Context, querier) (T, error),
) (answer T, err error) {
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return answer, err
	}
	defer func() {
		if closing := conn.Close(); !errors.Is(closing, sql.ErrConnDone) {
			err = errors.Join(err, closing)
		}
	}()
	answer, err = ask(ctx, conn)
	if err == nil || !s.scattered || !strings.Contains(err.Error(), "no such table") {
		return answer, err
	}
	if tables, failed := number(ctx, conn, "SELECT count(*) FROM sqlite_master"); failed != nil || tables > 0 {
		return answer, err
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it, for that error
	return answer, errElsewhere
}
