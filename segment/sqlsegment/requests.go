package sqlsegment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// attempts is how often a claim is tried within one request when the counter changes under it.
const attempts = 3

// errBusy means that others created, changed or removed the counter between the statements of a claim.
var errBusy = errors.New("others change the counter at the same time")

// Claim reserves n numbers with a single statement. When it returns, the change is committed.
func (s *Store) Claim(ctx context.Context, name string, n int64) (int64, error) {
	if err := segment.CheckClaim(name, n); err != nil {
		return 0, err
	}
	return s.ClaimOn(ctx, name, n, segment.AnyTerms())
}

// ClaimOn reserves n numbers on terms, which the statement itself checks.
func (s *Store) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if err := segment.CheckTerms(name, n, t); err != nil {
		return 0, err
	}
	what := fmt.Sprintf("claiming %d numbers of counter %q", n, name)
	// Each statement is a transaction of its own. Two of them in one would lock a row that is not there yet,
	// and processes that create a counter at the same time would wait for each other.
	for range attempts {
		claim := func(ctx context.Context, q sqlconn.Querier) (int64, error) {
			return s.claim(ctx, q, name, n, t)
		}
		first, err := sqlconn.Request(ctx, s.table, sqlconn.Writes, what, claim)
		if err != nil || first != 0 {
			return first, err
		}
		// The counter is not there, or forbids the claim.
		read := func(ctx context.Context, q sqlconn.Querier) (bool, error) {
			c, found, err := s.read(ctx, q, name)
			if err != nil {
				return false, err
			}
			if !found {
				c = segment.Counter{Name: name, Next: 1, Remainder: t.Remainder, Modulus: t.Modulus}
			}
			return found, segment.Refusal(c, n, t)
		}
		found, err := sqlconn.Request(ctx, s.table, sqlconn.Reads, what, read)
		if err != nil {
			return 0, err
		}
		if found {
			continue
		}
		fresh := segment.Counter{Name: name, Next: t.Start + n, Remainder: t.Remainder, Modulus: t.Modulus}
		create := func(ctx context.Context, q sqlconn.Querier) (bool, error) { return s.create(ctx, q, fresh) }
		created, err := sqlconn.Request(ctx, s.table, sqlconn.Writes, what, create)
		if err != nil {
			return 0, err
		}
		if created {
			return t.Start, nil
		}
	}
	return 0, fmt.Errorf("sqlsegment: table %s: %s: %w", s.table.Name(), what, errBusy)
}

// claim runs the one statement. It returns 0 if the counter is not there or the terms are not met.
func (s *Store) claim(
	ctx context.Context, q sqlconn.Querier, name string, n int64, t segment.Terms,
) (first int64, err error) {
	args := []any{t.Start, n, stamp(), name, t.Remainder, t.Modulus, t.Last - n + 1, t.Above}
	if s.dialect.Kind == dialect.MySQL {
		result, err := q.ExecContext(ctx, s.sql.claim, args...)
		if err != nil {
			return 0, err
		}
		rows, err := result.RowsAffected()
		if err != nil || rows == 0 {
			return 0, err
		}
		if first, err = result.LastInsertId(); err == nil {
			err = oneRow(name, rows)
		}
		return first, err
	}
	_, rows, err := sqlconn.Query(ctx, q, s.sql.claim, args...)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	next, ok := sqlconn.Integer(rows[0][0])
	if !ok {
		return 0, invalid(name, "next", rows[0][0])
	}
	return next - n, oneRow(name, int64(len(rows)))
}

// oneRow returns an error if a statement changed several rows of one counter.
func oneRow(name string, rows int64) error {
	if rows <= 1 {
		return nil
	}
	return fmt.Errorf("%w: counter %q has %d rows: the table lacks its primary key; delete the row with the "+
		"smaller next, and add the key", segment.ErrInvalidCounter, name, rows)
}

// read returns the row of a counter.
func (s *Store) read(
	ctx context.Context, q sqlconn.Querier, name string,
) (c segment.Counter, found bool, err error) {
	_, rows, err := sqlconn.Query(ctx, q, s.sql.read, name)
	if err != nil || len(rows) == 0 {
		return c, false, err
	}
	if c, err = counter(rows[0]); err == nil {
		err = oneRow(name, int64(len(rows)))
	}
	return c, true, err
}

// create makes a row unless there is one, and tells whether it did.
func (s *Store) create(ctx context.Context, q sqlconn.Querier, c segment.Counter) (bool, error) {
	return changed(q.ExecContext(ctx, s.sql.create, c.Name, c.Next, c.Remainder, c.Modulus, stamp()))
}

// Counters returns the counters whose names begin with prefix, sorted by name.
func (s *Store) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	return sqlconn.Request(ctx, s.table, sqlconn.Reads, "reading the counters",
		func(ctx context.Context, q sqlconn.Querier) ([]segment.Counter, error) {
			_, rows, err := sqlconn.Query(ctx, q, s.sql.list)
			if err != nil {
				return nil, err
			}
			found := make([]segment.Counter, 0, len(rows))
			for _, row := range rows {
				c, err := counter(row)
				if !strings.HasPrefix(c.Name, prefix) {
					continue // another's fault does not matter here
				}
				if err != nil {
					return nil, err
				}
				found = append(found, c)
			}
			slices.SortFunc(found, func(a, b segment.Counter) int { return strings.Compare(a.Name, b.Name) })
			return found, nil
		})
}

// Change replaces a counter, or makes it, with a single statement.
func (s *Store) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	if err := segment.CheckChange(prev, next); err != nil {
		return false, err
	}
	return sqlconn.Request(ctx, s.table, sqlconn.Writes, fmt.Sprintf("changing counter %q", next.Name),
		func(ctx context.Context, q sqlconn.Querier) (bool, error) {
			if prev.Next == 0 {
				return s.create(ctx, q, next)
			}
			return changed(q.ExecContext(ctx, s.sql.change, next.Next, next.Remainder, next.Modulus, stamp(),
				prev.Name, prev.Next, prev.Remainder, prev.Modulus))
		})
}

// Remove removes a counter with a single statement.
func (s *Store) Remove(ctx context.Context, prev segment.Counter) (bool, error) {
	return sqlconn.Request(ctx, s.table, sqlconn.Writes, fmt.Sprintf("removing counter %q", prev.Name),
		func(ctx context.Context, q sqlconn.Querier) (bool, error) {
			return changed(q.ExecContext(ctx, s.sql.remove, prev.Name, prev.Next, prev.Remainder, prev.Modulus))
		})
}

// changed tells whether a statement has changed a row.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// counter reads one row.
func counter(row []any) (c segment.Counter, err error) {
	var ok bool
	if c.Name, ok = sqlconn.Text(row[columnName]); !ok {
		return c, fmt.Errorf("%w in column name: %s is no text: delete the row", segment.ErrInvalidCounter,
			sqlconn.Shown(row[columnName]))
	}
	for column, to := range map[int]*int64{
		columnNext: &c.Next, columnRemainder: &c.Remainder, columnModulus: &c.Modulus,
	} {
		if *to, ok = sqlconn.Integer(row[column]); !ok {
			return c, invalid(c.Name, columnNames()[column], row[column])
		}
	}
	if c.UpdatedAt, ok = sqlconn.Instant(row[columnUpdatedAt]); !ok {
		return c, invalid(c.Name, "updated_at", row[columnUpdatedAt])
	}
	if c.Next < 1 || c.Modulus < 0 || c.Remainder < 0 || c.Remainder >= max(c.Modulus, 1) {
		return c, fmt.Errorf("%w: counter %q has next %d, remainder %d and modulus %d: "+
			"%s", segment.ErrInvalidCounter,
			c.Name, c.Next, c.Remainder, c.Modulus, remedy)
	}
	return c, nil
}

const remedy = "somebody changed it by hand; put it right, with a next that is greater than every number " +
	"in use"

func invalid(name, column string, value any) error {
	return fmt.Errorf("%w: counter %q in column %s: %s: %s", segment.ErrInvalidCounter, name, column,
		sqlconn.Shown(value), remedy)
}

// stamp is the present in the form of the table.
func stamp() string { return time.Now().UTC().Format(sqlconn.TimeForm) }

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. It returns an error at once on SQLite, and on a shared pool of one connection. See
// [segment.Prober].
func (s *Store) Probe(ctx context.Context) error { return s.table.Probe(ctx) }
