package reshard

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// phase is where a job stands. The journal says it before the phase begins.
type phase string

const (
	phaseCopying   phase = "copying"   // the old tables are valid, and in a cutover some of them may be renamed
	phaseReplacing phase = "replacing" // all rows are in the new tables, and the old ones are renamed
	phaseCut       phase = "cut"
	phaseDropping  phase = "dropping"
)

// record is a row of the journal.
type record struct {
	owner        int64
	phase        phase
	last, copied int64
}

func (m *machine) id() string { return m.Name + "/0" }

// take makes the journals, and takes the job over. It returns the phase.
func (m *machine) take(ctx context.Context) (current phase, err error) {
	ids := map[*database][]string{m.home: {m.id()}}
	for _, mv := range m.moves {
		ids[mv.fresh.side.d] = append(ids[mv.fresh.side.d], mv.id)
	}
	for _, d := range m.journals {
		names := []string{"id", "owner", "phase", "last_key", "copied"}
		types := []string{d.Text, d.Integer, d.Time, d.Integer, d.Integer}
		if err := d.make(ctx, d.CreateTable(d.journal, names, types)); err != nil {
			return "", err
		}
		err := d.transaction(ctx, func(q gorm.ConnPool) error {
			for _, id := range ids[d] {
				insert, unless := d.InsertUnlessThere(d.journal, names)
				s := dialect.Write(d.Kind, insert, "VALUES (").
					BindAll(id, m.owner, string(phaseCopying), int64(math.MinInt64), int64(0)).Add(")", unless)
				if err := execute(ctx, q, s); err != nil {
					return err
				}
				s = dialect.Write(d.Kind, "UPDATE ", d.journal, " SET owner = ").Bind(m.owner).
					Add(" WHERE id = ").Bind(id)
				if err := execute(ctx, q, s); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return m.phaseNow(ctx)
}

// phaseNow reads the phase. It is empty if there is no job of this name.
func (m *machine) phaseNow(ctx context.Context) (current phase, err error) {
	query := "SELECT phase FROM " + m.home.journal + " WHERE id = " + m.home.Bind(1)
	err = m.home.pool.QueryRowContext(ctx, query, m.id()).Scan(&current)
	if errors.Is(err, sql.ErrNoRows) || dialect.Missing(err) {
		return "", nil
	}
	return current, err
}

// hold locks a row of the journal until the end of a transaction, and refuses to go on if another process has
// taken the job over.
func (m *machine) hold(ctx context.Context, d *database, q gorm.ConnPool, id string) (r record, err error) {
	// It writes first, because a read might see the row as it was when the transaction began.
	s := dialect.Write(d.Kind, "UPDATE ", d.journal, " SET phase = phase WHERE id = ").Bind(id)
	if err := execute(ctx, q, s); err != nil {
		return r, err
	}
	query := "SELECT owner, phase, last_key, copied FROM " + d.journal + " WHERE id = " + d.Bind(1)
	err = q.QueryRowContext(ctx, query, id).Scan(&r.owner, &r.phase, &r.last, &r.copied)
	if err == nil && r.owner != m.owner || errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: another process has gone on with the job %s, or has ended it: look at its state, "+
			"and call the step again", errs.ErrSharding, m.Name)
	}
	return r, err
}

// save writes a row of the journal that the transaction holds.
func (m *machine) save(ctx context.Context, d *database, q gorm.ConnPool, id string, r record) error {
	s := dialect.Write(d.Kind, "UPDATE ", d.journal, " SET phase = ").Bind(string(r.phase)).
		Add(", last_key = ").Bind(r.last).Add(", copied = ").Bind(r.copied).Add(" WHERE id = ").Bind(id)
	return execute(ctx, q, s)
}

// note writes the phase that begins.
func (m *machine) note(ctx context.Context, next phase) error {
	return m.home.transaction(ctx, func(q gorm.ConnPool) error { return m.noteIn(ctx, q, next) })
}

func (m *machine) noteIn(ctx context.Context, q gorm.ConnPool, next phase) error {
	r, err := m.hold(ctx, m.home, q, m.id())
	if err != nil {
		return err
	}
	r.phase = next
	return m.save(ctx, m.home, q, m.id(), r)
}

// held are the connections that have the tables of a database locked.
type held map[*database]gorm.ConnPool

// reader returns where rows of a database can be read.
func (h held) reader(d *database) gorm.ConnPool {
	if q := h[d]; q != nil {
		return q
	}
	return d.pool
}

// reading is reader for values that go to another database. On SQLite no session is set for that, and a
// transaction might lock the file.
func (h held) reading(ctx context.Context, d *database, do func(q gorm.ConnPool) error) error {
	if h[d] != nil || d.Embedded() {
		return do(h.reader(d))
	}
	return d.transaction(ctx, do)
}

// write runs a transaction, or goes on with the one that holds the lock.
func (h held) write(ctx context.Context, d *database, do func(q gorm.ConnPool) error) error {
	q := h[d]
	if q == nil {
		return d.transaction(ctx, do)
	}
	return d.underLock(ctx, q, func() error { return do(q) })
}

// fenced changes tables while no other process can take the job over. The connections that it gives to do are
// those on which no foreign key is checked, or the transaction itself where a database has one writer.
func (m *machine) fenced(ctx context.Context, do func(h held) error) error {
	return m.home.transaction(ctx, func(q gorm.ConnPool) error {
		if _, err := m.hold(ctx, m.home, q, m.id()); err != nil {
			return err
		}
		h := held{}
		if m.home.transactional { // Elsewhere such a statement would end the transaction
			h[m.home] = q
		}
		asTheyAre := func(_ *database, c *sql.Conn, next func(gorm.ConnPool) error) error { return next(c) }
		return m.onConnections(ctx, m.dbs, h, asTheyAre, func() error { return do(h) })
	})
}

// onConnections opens a connection to each database that has none yet, and lets begin prepare it.
func (m *machine) onConnections(
	ctx context.Context, dbs []*database, h held,
	begin func(d *database, c *sql.Conn, next func(q gorm.ConnPool) error) error, do func() error,
) error {
	if len(dbs) == 0 {
		return do()
	}
	next := func() error { return m.onConnections(ctx, dbs[1:], h, begin, do) }
	if h[dbs[0]] != nil {
		return next()
	}
	return dbs[0].onConnection(ctx, func(c *sql.Conn) error {
		return begin(dbs[0], c, func(q gorm.ConnPool) error {
			h[dbs[0]] = q
			return next()
		})
	})
}

// locate finds out what the old tables are called, and whether one of them was renamed already.
func (m *machine) locate(ctx context.Context, h held) (begun bool, err error) {
	for _, t := range tablesOf(m.old) {
		gone, err := t.side.d.HasTable(ctx, h.reader(t.side.d), t.away)
		if err != nil {
			return false, err
		}
		if t.now = t.Name; gone {
			t.now, begun = t.away, true
		}
	}
	return begun, nil
}

// forget removes the job from the journals. The row of the job goes last, because by it a process finds the
// others.
func (m *machine) forget(ctx context.Context) error {
	ids := []string{m.id()}
	for _, mv := range m.moves {
		ids = append(ids, mv.id)
	}
	for _, d := range slices.Backward(m.journals) { // The home is the first one.
		s := dialect.Write(d.Kind, "DELETE FROM ", d.journal, " WHERE id").In(ids)
		if err := execute(ctx, d.pool, s); err != nil {
			return err
		}
	}
	return nil
}

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

// Patiently does something again that somebody else has kept from a lock, as SQLite has only one, or that the
// server has given up for what others do, as for a deadlock. It does so for the budget, which begins anew
// when rows have moved. Every step of a job can be repeated.
func Patiently(ctx context.Context, budget time.Duration, moved *bool, do func() error) error {
	var since time.Time
	for {
		err := do()
		if !isLocked(err) && !dialect.Busy(err) || errors.Is(err, errs.ErrSharding) {
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
	err = whenFree(ctx, m.old, func() error {
		// What a try before this one has renamed was taken back with its transaction, or was not.
		if _, err := m.locate(ctx, held{}); err != nil {
			return err
		}
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
