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

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
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
		who = append(who, s.d.inTheWay(ctx, s))
	}
	return fmt.Errorf("%w: a transaction that uses the tables of the shard has not ended within %v, and "+
		"writes go on as before. %s. End it, and call this again: %w", errs.ErrSharding, sides[0].m.Budget,
		strings.Join(who, "; "), err)
}

// blame writes who is in the way, and what the login must not know.
func blame(found, hidden []string) string {
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
		if attempt.Sleep(ctx, lockWait) != nil {
			return errs.Ended(ctx)
		}
	}
}

// locked calls do while nobody can write to the old tables, and commits what it has done. It returns for how
// long nobody could.
func locked(ctx context.Context, m *machine, do func(h held) error) (stopped time.Duration, err error) {
	// With the old tables, MySQL and MariaDB lock the lists of keys, to which their triggers write. The
	// statement must not name these: it would have them before the tables, while statements take them after
	// those, and the server ends such a statement.
	tables := map[*database][]string{}
	for _, s := range m.old {
		tables[s.d] = append(tables[s.d], quotedTables(s)...)
	}
	dbs := slices.DeleteFunc(slices.Clone(m.dbs), func(d *database) bool { return tables[d] == nil })
	for _, s := range m.fresh {
		if !s.d.confined || tables[s.d] == nil {
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
			return d.lock(ctx, c, tables[d], next)
		}
		err := m.onConnections(ctx, dbs, h, begin, func() error { return do(h) })
		stopped = time.Since(since)
		return err
	})
	return stopped, err
}
