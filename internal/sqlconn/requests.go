package sqlconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

const (
	minPause = time.Millisecond
	maxPause = 100 * time.Millisecond

	// maxDead is how many connections a request may find dead.
	maxDead = 3
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Request asks the database for something. What it is stands in the errors.
func Request[T any](
	ctx context.Context, t *Table, k Kind, what string, ask func(context.Context, Querier) (T, error),
) (answer T, err error) {
	c := &t.config
	if t.closed.Load() {
		return answer, fmt.Errorf("%w: the store in table %s", c.ErrClosed, c.Name)
	}
	if ctx.Err() != nil {
		return answer, fmt.Errorf("%s: table %s: %s: %w", c.Package, c.Name, what, context.Cause(ctx))
	}
	do := func() (T, error) { return persist(ctx, func() (T, error) { return attempt(ctx, t, k, ask) }) }
	if c.Dialect.Embedded {
		answer, err = detached(ctx, do)
	} else {
		answer, err = do()
	}
	if err == nil {
		return answer, nil
	}
	var none T
	return none, fmt.Errorf("%s: table %s: %s: %w", c.Package, c.Name, what, t.explain(ctx, err))
}

// persist does something again, until the context ends, as long as nothing was done because somebody
// else was at work. It also tries again if a connection turns out to be dead before it was used, as
// often as database/sql itself does.
func persist[T any](ctx context.Context, do func() (T, error)) (answer T, err error) {
	dead := 0
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if answer, err = do(); err == nil {
			return answer, nil
		}
		if errors.Is(err, driver.ErrBadConn) && dead < maxDead {
			dead++
			continue
		}
		if !rolledBack(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
		}
	}
}

// rolledBack recognizes the errors after which nothing was done for sure, and which are over when somebody
// else is ready. All that a request has begun is rolled back.
func rolledBack(err error) bool {
	return dialect.Busy(err) || errors.Is(err, errElsewhere) || errors.Is(err, ErrInTransaction)
}

// explain says what the driver does not: that time was lacking, or a cause that is known.
func (t *Table) explain(ctx context.Context, err error) error {
	err = Translate(err)
	if errors.Is(err, ErrPooler) {
		return fmt.Errorf("%w: %w", t.config.ErrDatabase, err)
	}
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

// Query reads all rows of a statement, as the driver gives the values, and the names of their columns.
func Query(
	ctx context.Context, q Querier, statement string, args ...any,
) (names []string, all [][]any, err error) {
	rows, err := q.QueryContext(ctx, statement, args...)
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

// Number asks for a single number.
func Number(ctx context.Context, q Querier, statement string) (int64, error) {
	_, rows, err := Query(ctx, q, statement)
	if err != nil {
		return 0, err
	}
	if len(rows) == 1 && len(rows[0]) == 1 {
		if n, ok := Integer(rows[0][0]); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the answer to %s is not a number: %v", statement, rows)
}
