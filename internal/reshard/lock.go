package reshard

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// lockWait is how long one try waits for a lock. Whoever writes to the table meanwhile waits behind it, so
// between two tries there is as much time for writes.
const lockWait = 50 * time.Millisecond

// refused is the error of a lock that could not be had in time.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// isLocked reports whether somebody else has a lock.
func isLocked(err error) bool { return errors.As(err, &refused{}) || dialect.Locked(err) }

// whenFree tries to do what needs a lock, until the budget is spent. The error of the last try says who was
// in the way.
func whenFree(ctx context.Context, sides []*side, try func() error) error {
	err := Patiently(ctx, sides[0].m.Budget, new(bool), try)
	if !isLocked(err) {
		return err
	}
	var who []string
	for _, s := range sides {
		who = append(who, inTheWay(ctx, s))
	}
	return fmt.Errorf("%w: a transaction that uses the tables of the shard has not ended within %v, and "+
		"writes go on as before. %s. End it, and call this again: %w", errs.ErrSharding, sides[0].m.Budget,
		strings.Join(who, "; "), err)
}

// inTheWay says whose transactions are open, as far as the login may know it. Those that are prepared belong
// to no connection.
func inTheWay(ctx context.Context, s *side) string {
	query := "SELECT concat('connection ', trx_mysql_thread_id, ', in a transaction since ', trx_started) " +
		"FROM information_schema.innodb_trx WHERE trx_mysql_thread_id NOT IN (0, connection_id()) " +
		"ORDER BY trx_started LIMIT 3"
	switch s.d.Kind {
	case dialect.PostgreSQL:
		var tables []string
		for _, name := range quotedTables(s) {
			tables = append(tables, "to_regclass('"+strings.ReplaceAll(name, "'", "''")+"')")
		}
		query = "SELECT DISTINCT CASE WHEN gid IS NULL THEN format('process %s of %s (%s), in a transaction " +
			"since %s', l.pid, usename, application_name, xact_start) ELSE format('the prepared transaction " +
			"%L of %s, which COMMIT PREPARED or ROLLBACK PREPARED ends, since %s', gid, owner, prepared) END, " +
			"coalesce(xact_start, prepared) FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid " +
			"LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid " +
			"AND x.pid IS NULL) ON l.pid IS NULL AND x.virtualtransaction = l.virtualtransaction " +
			"WHERE l.pid IS DISTINCT FROM pg_backend_pid() AND l.granted AND l.relation IN (" +
			strings.Join(tables, ", ") + ") ORDER BY 2 LIMIT 3"
	case dialect.SQLite:
		return "It is one of another connection to the file"
	}
	var found, hidden []string
	rows, err := texts(ctx, s.d.pool, query)
	if err != nil {
		hidden = append(hidden, "A login with the right PROCESS finds it in information_schema.innodb_trx")
	}
	for _, row := range rows {
		found = append(found, row[0])
	}
	if s.d.Kind == dialect.MySQL {
		prepared, err := texts(ctx, s.d.pool, "XA RECOVER")
		if err != nil {
			hidden = append(hidden, "One with the right XA_RECOVER_ADMIN finds prepared ones by XA RECOVER")
		}
		for _, row := range prepared[:min(len(prepared), 3)] {
			n, _ := strconv.Atoi(row[1]) // the length of the first part
			n = min(n, len(row[3]))
			found = append(found, fmt.Sprintf("the prepared transaction %q, which XA COMMIT or XA ROLLBACK ends, "+
				"with X'%x', X'%x', %s behind it", row[3], row[3][:n], row[3][n:], row[0]))
		}
	}
	switch {
	case len(found) > 0:
		hidden = append([]string{"In the way is " + strings.Join(found, ", or ")}, hidden...)
	case len(hidden) == 0:
		return "It has ended by now"
	}
	return strings.Join(hidden, ". ")
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
func locked(ctx context.Context, m *machine, do func(h held) error) (stopped time.Duration, err error) {
	// A connection of MySQL or MariaDB may use no other tables than those that it has locked. With the old
	// tables it locks the lists of keys, to which their triggers write. It must not name these: it would have
	// them before the tables, while statements take them after those, and the server ends such a statement.
	tables := map[*database][]string{}
	for _, s := range m.old {
		tables[s.d] = append(tables[s.d], quotedTables(s)...)
	}
	dbs := slices.DeleteFunc(slices.Clone(m.dbs), func(d *database) bool { return tables[d] == nil })
	for _, s := range m.fresh {
		if s.d.Kind != dialect.MySQL || tables[s.d] == nil {
			continue
		}
		tables[s.d] = append(tables[s.d], quotedTables(s)...)
		if !slices.Contains(tables[s.d], s.d.journal) {
			tables[s.d] = append(tables[s.d], s.d.journal)
		}
	}
	err = whenFree(ctx, m.old, func() error {
		since, h := time.Now(), held{}
		begin := func(d *database, c *sql.Conn, next func(gorm.ConnPool) error) error {
			return lock(ctx, d, c, tables[d], next)
		}
		err := m.onConnections(ctx, dbs, h, begin, func() error { return do(h) })
		stopped = time.Since(since)
		return err
	})
	return stopped, err
}

// lock locks tables, and calls do. Where a transaction has the lock, it is committed then.
func lock(
	ctx context.Context, d *database, c *sql.Conn, tables []string, do func(q gorm.ConnPool) error,
) (err error) {
	if d.Kind == dialect.MySQL {
		defer func() { err = errors.Join(err, run(context.WithoutCancel(ctx), c, "UNLOCK TABLES")) }()
		// A transaction that is prepared keeps MariaDB from LOCK TABLES only if that is in a transaction, too.
		// Without one, each statement then commits what it has done, and UNLOCK TABLES commits nothing.
		err = inTransaction(ctx, c, func() error {
			return impatiently(ctx, d, c, func() error {
				return run(ctx, c, "LOCK TABLES "+strings.Join(tables, " WRITE, ")+" WRITE")
			})
		})
		if err != nil {
			return err
		}
		return do(c)
	}
	return d.begun(ctx, c, func(q gorm.ConnPool) error {
		// A transaction of SQLite that begins with a read would not be let in later.
		statements := []string{"DELETE FROM " + tables[0] + " WHERE 1 = 0"}
		if d.Kind == dialect.PostgreSQL {
			statements = []string{shortWait(),
				"LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS EXCLUSIVE MODE"}
		}
		if err := run(ctx, q, statements...); err != nil {
			return err
		}
		return do(q)
	})
}

// shortWait bounds how long a transaction of PostgreSQL waits for each lock.
func shortWait() string {
	return fmt.Sprintf("SET LOCAL lock_timeout = %d", lockWait.Milliseconds())
}

// impatiently gives a statement of MySQL or MariaDB up that waits for a lock. The shortest timeout of the
// server's own is a second, for which all writers would wait, too. So a second connection ends it.
func impatiently(ctx context.Context, d *database, c *sql.Conn, do func() error) error {
	if d.Kind != dialect.MySQL {
		return do()
	}
	id, err := number(ctx, c, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	// It is taken now, because all others may soon be waiting for the lock.
	killer, err := d.pool.Conn(ctx)
	if err != nil {
		return err
	}
	done, ended, sent := make(chan struct{}), make(chan error, 1), false
	go func() {
		select {
		case <-done:
			ended <- nil
		case <-time.After(lockWait):
			sent = true
			ended <- run(context.WithoutCancel(ctx), killer, fmt.Sprintf("KILL QUERY %d", id))
		}
	}()
	err = do()
	close(done)
	killed := <-ended
	_ = killer.Close()
	switch state := dialect.State(err); {
	case state == "1317", state == "1969",
		sent && state == "1064": // MariaDB, which had begun to read the triggers of the table
		return refused{err}
	}
	if err == nil && killed == nil {
		// It may have come after the end of the statement, and would then meet the next one.
		for range 2 {
			if err := run(ctx, c, "DO 0"); err != nil && dialect.State(err) != "1317" {
				return err
			}
		}
	}
	return errors.Join(err, killed)
}
