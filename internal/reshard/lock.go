package reshard

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// locker keeps others from the old tables for a moment.
type locker struct{ *machine }

// lockWait is how long one try waits for a lock. Whoever writes to the table meanwhile waits behind it, so
// between two tries there is as much time for writes.
const lockWait = 50 * time.Millisecond

// refused is the error of a lock that could not be had in time.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// held are the connections that have the tables of a database locked.
type held map[*database]gorm.ConnPool

// reader returns where rows of a database can be read.
func (h held) reader(d *database) gorm.ConnPool {
	if q := h[d]; q != nil {
		return q
	}
	return d.pool
}

// write runs a transaction, or goes on with the one that holds the lock. On MySQL no transaction holds it,
// and BEGIN would unlock the tables.
func (h held) write(ctx context.Context, d *database, do func(q gorm.ConnPool) error) error {
	q := h[d]
	switch {
	case q == nil:
		return d.transaction(ctx, do)
	case d.Kind != dialect.MySQL:
		return do(q)
	}
	err := run(ctx, q, "SET autocommit = 0")
	if err == nil {
		err = do(q)
	}
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	return errors.Join(err, run(context.WithoutCancel(ctx), q, end, "SET autocommit = 1"))
}

// isLocked reports whether somebody else has a lock.
func isLocked(err error) bool { return errors.As(err, &refused{}) || dialect.Locked(err) }

// patiently tries to do what needs a lock, until the budget is spent. The error of the last try says who was
// in the way.
func (m *locker) patiently(ctx context.Context, sides []*side, try func() error) error {
	err := Patiently(ctx, m.Budget, new(bool), try)
	if !isLocked(err) {
		return err
	}
	var who []string
	for _, s := range sides {
		who = append(who, s.inTheWay(ctx))
	}
	return fmt.Errorf("%w: a transaction that uses the tables of the shard has not ended within %v, and "+
		"writes go on as before. %s. End it, and call this again: %w", errs.ErrSharding, m.Budget,
		strings.Join(who, "; "), err)
}

// Patiently does something again that somebody else has kept from a lock, as SQLite has only one. It does so
// for the budget, which begins anew when rows have moved. Every step of a job can be repeated.
func Patiently(ctx context.Context, budget time.Duration, moved *bool, do func() error) error {
	var since time.Time
	for {
		err := do()
		if !isLocked(err) || errors.Is(err, errs.ErrSharding) {
			return err
		}
		if since.IsZero() || *moved {
			since, *moved = time.Now(), false
		}
		if time.Since(since) > cmp.Or(budget, defaultBudget) {
			return err
		}
		select {
		case <-ctx.Done():
			return errs.Ended(ctx)
		case <-time.After(lockWait):
		}
	}
}

// locked calls do while nobody can write to the old tables, and commits what it has done. It returns for how
// long nobody could.
func (m *locker) locked(ctx context.Context, do func(h held) error) (stopped time.Duration, err error) {
	// A connection of MySQL or MariaDB may use no other tables than those that it has locked.
	tables := map[*database][]string{}
	for _, s := range m.from {
		for _, t := range s.tables {
			tables[s.d] = append(tables[s.d], t.quoted())
		}
		if s.d.Kind == dialect.MySQL {
			tables[s.d] = append(tables[s.d], s.d.Quoted(s.keys))
		}
	}
	dbs := slices.DeleteFunc(slices.Clone(m.dbs), func(d *database) bool { return tables[d] == nil })
	for _, s := range m.to {
		if s.d.Kind != dialect.MySQL || tables[s.d] == nil {
			continue
		}
		for _, t := range s.tables {
			tables[s.d] = append(tables[s.d], t.quoted())
		}
		if !slices.Contains(tables[s.d], s.d.journal) {
			tables[s.d] = append(tables[s.d], s.d.journal)
		}
	}
	err = m.patiently(ctx, m.from, func() error {
		since, h := time.Now(), held{}
		lock := func(d *database, c *sql.Conn, next func(gorm.ConnPool) error) error {
			return m.lock(ctx, d, c, tables[d], next)
		}
		err := m.onConnections(ctx, dbs, h, lock, func() error { return do(h) })
		stopped = time.Since(since)
		return err
	})
	return stopped, err
}

// lock locks tables, and calls do. Where a transaction has the lock, it is committed then.
func (m *locker) lock(
	ctx context.Context, d *database, c *sql.Conn, tables []string, do func(q gorm.ConnPool) error,
) (err error) {
	if d.Kind == dialect.MySQL {
		// Without a transaction, each statement commits what it has done, and UNLOCK TABLES commits nothing.
		err = d.impatiently(ctx, c, func() error {
			return run(ctx, c, "LOCK TABLES "+strings.Join(tables, " WRITE, ")+" WRITE")
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run(context.WithoutCancel(ctx), c, "UNLOCK TABLES")) }()
		return do(c)
	}
	return d.begun(ctx, c, func(q gorm.ConnPool) error {
		// A transaction of SQLite that begins with a read would not be let in later.
		statements := []string{"DELETE FROM " + tables[0] + " WHERE 1 = 0"}
		if d.Kind == dialect.PostgreSQL {
			statements = []string{d.shortWait(),
				"LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS EXCLUSIVE MODE"}
		}
		if err := run(ctx, q, statements...); err != nil {
			return err
		}
		return do(q)
	})
}

// inTheWay says whose transactions are open, as far as the login may know it.
func (s *side) inTheWay(ctx context.Context) string {
	d := s.d
	var query string
	switch d.Kind {
	case dialect.PostgreSQL:
		var tables []string
		for _, t := range s.tables {
			tables = append(tables, "to_regclass('"+strings.ReplaceAll(t.quoted(), "'", "''")+"')")
		}
		query = "SELECT concat('process ', pid, ' of ', usename, ' (', nullif(application_name, ''), '), in a " +
			"transaction since ', xact_start) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND pid IN " +
			"(SELECT pid FROM pg_locks WHERE granted AND relation IN (" + strings.Join(tables, ", ") + ")) " +
			"ORDER BY xact_start LIMIT 3"
	case dialect.MySQL:
		query = "SELECT concat('connection ', trx_mysql_thread_id, ', in a transaction since ', trx_started) " +
			"FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> connection_id() " +
			"ORDER BY trx_started LIMIT 3"
	default:
		return "It is one of another connection to the file"
	}
	rows, err := texts(ctx, d.pool, query)
	if err != nil {
		return "A login with the right PROCESS finds it in information_schema.innodb_trx"
	}
	if len(rows) == 0 {
		return "It has ended by now"
	}
	var found []string
	for _, row := range rows {
		found = append(found, row[0])
	}
	return "In the way is " + strings.Join(found, ", or ")
}
