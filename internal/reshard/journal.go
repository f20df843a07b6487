package reshard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// phase is where a job stands. The journal says it before the phase begins.
type phase string

const (
	phaseCopying   phase = "copying"   // the old tables are valid; also in a cutover that is one transaction
	phaseCutting   phase = "cutting"   // they still are, but the entries may be closed, and some tables renamed
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
	for _, d := range m.dbs {
		if ids[d] == nil {
			continue
		}
		names := []string{"id", "owner", "phase", "last_key", "copied"}
		types := []string{d.Text, d.Integer, d.Time, d.Integer, d.Integer}
		if err := run(ctx, d.pool, d.CreateTable(d.journal, names, types)); err != nil {
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
	for i := len(m.dbs) - 1; i >= 0; i-- { // The home is the first one.
		d := m.dbs[i]
		there, err := d.HasTable(ctx, d.pool, d.db.NamingStrategy.TableName(journalTable))
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		s := dialect.Write(d.Kind, "DELETE FROM ", d.journal, " WHERE id").In(ids)
		if err := execute(ctx, d.pool, s); err != nil {
			return err
		}
	}
	return nil
}
