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
		who = append(who, s.d.inTheWay(ctx, quotedTables(s)))
	}
	return fmt.Errorf("%w: a transaction that uses the tables of the shard has not ended within %v, and "+
		"writes go on as before. %s. End it, and call this again: %w", errs.ErrSharding, sides[0].m.Budget,
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
func locked(ctx context.Context, m *machine, do func(h held) error) (stopped time.Duration, err error) {
	// A connection of MySQL or MariaDB may use no other tables than those that it has locked.
	tables := map[*database][]string{}
	for _, s := range m.old {
		tables[s.d] = append(tables[s.d], quotedTables(s)...)
		if s.d.Kind == dialect.MySQL {
			tables[s.d] = append(tables[s.d], s.d.Quoted(s.keys))
		}
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
