package authority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// ErrRefused marks a move that would be possible but perhaps not safe. Force allows it.
var ErrRefused = errors.New("refused")

var errMovedAway = errors.New("the new leases were moved away before, and nothing tells for which " +
	"layout they come back: use another table")

// Row is a row of the table.
type Row struct {
	Subject string
	Note
}

// Show returns what the database says of itself, or nothing if the table is not there. noted is nil if
// nothing is noted about the rows. own lists the tables of leases that lie in this database, and, if the
// rows come from leases in another schema of it, that table with its schema.
func (d Database) Show(ctx context.Context) (noted *Note, own []Row, err error) {
	if d, err = d.Locate(ctx); err != nil {
		return nil, nil, err
	}
	rows, err := d.rows(ctx)
	if err != nil {
		return nil, nil, d.failed(ctx, err)
	}
	for subject, n := range rows {
		if subject == subjectRows {
			noted = &n
		} else if table, ok := strings.CutPrefix(subject, string(Leases)); ok {
			own = append(own, Row{Subject: table, Note: n})
		}
	}
	if noted == nil || !noted.IsIdentified() ||
		slices.ContainsFunc(own, func(r Row) bool { return r.ID == noted.ID }) {
		return noted, own, nil
	}
	elsewhere, err := d.Elsewhere(ctx, noted.ID)
	for _, table := range elsewhere {
		own = append(own, Row{Subject: table, Note: Note{Origin: noted.Origin}})
	}
	return noted, own, err
}

// Move is how the authority of a database is changed.
type Move struct {
	// From is where the numbers were leased so far. It is nil if they were given by hand, or if the store
	// is gone, which needs Force.
	From lease.Store
	// To is where they will be leased. It is nil if the next plugin that uses the database decides.
	To lease.Store
	// Force goes on although numbers may be in use.
	Force bool
	// AnotherLayout says that IDs of the new layout are greater than all that are there. Then the ends of
	// the old windows are not copied.
	AnotherLayout bool
}

// Move moves the authority of the database. When it ends without an error, the tables of From grant no
// window any more, no window that To grants has a tick in common with any window of From, and the
// database notes To. It returns what was noted and what is noted now; the latter is empty if the next
// plugin decides. After an error it can be called again.
func (d Database) Move(ctx context.Context, m Move) (was, is Origin, err error) {
	if d, err = d.Locate(ctx); err != nil {
		return was, is, err
	}
	noted, _, err := d.Show(ctx)
	if err != nil {
		return was, is, err
	}
	if noted != nil {
		was = noted.Origin
	}
	if m.To != nil {
		if is, err = Leased(ctx, m.To); err != nil {
			return was, is, err
		}
		if noted != nil && noted.sameAs(is) {
			return was, is, nil
		}
	}
	source, err := m.source(ctx, was)
	if err != nil {
		return was, is, err
	}
	var ends []lease.Record
	if m.From != nil && (m.To == nil || source.ID != is.ID) {
		if ends, err = m.drain(ctx, is); err != nil {
			return was, is, err
		}
	}
	if m.To != nil && !m.AnotherLayout {
		if err := leaseops.Raise(ctx, m.To, ends); err != nil {
			return was, is, err
		}
	}
	return was, is, d.replace(ctx, noted, m.To != nil, is)
}

// source checks that From is what the database notes.
func (m Move) source(ctx context.Context, was Origin) (source Origin, err error) {
	if m.From == nil {
		if was.ID != "" && !m.Force {
			return source, fmt.Errorf("%w: the IDs of this database come from %s, and nothing tells whether "+
				"processes still use those numbers. Name the database of those leases with --from. If the numbers "+
				"are given by hand, or the leases are gone, stop every program that writes to this database, wait "+
				"for half a minute, and use --force", ErrRefused, was)
		}
		return source, nil
	}
	if source, err = Leased(ctx, m.From); err != nil {
		return source, err
	}
	if was.IsIdentified() && source.ID != was.ID {
		return source, fmt.Errorf("the IDs of this database come from %s, and not from %s", was, source)
	}
	return source, nil
}

// drain ends all windows of From and returns its records, which have the ends of the last ones.
func (m Move) drain(ctx context.Context, target Origin) ([]lease.Record, error) {
	now, records, err := leaseops.Read(ctx, m.From)
	if err != nil {
		return nil, err
	}
	if !m.Force {
		if err := running(records, now, "the leases that the database has now", m.To == nil); err != nil {
			return nil, err
		}
	}
	if m.To != nil {
		if err := m.check(ctx, records); err != nil {
			return nil, err
		}
	}
	return leaseops.Drain(ctx, m.From, cmp.Or(target.ID, "another"))
}

// check refuses a store that cannot take over. Its clock, and not that of the old one, says what is held
// there.
func (m Move) check(ctx context.Context, records []lease.Record) error {
	now, theirs, err := leaseops.Read(ctx, m.To)
	if err != nil {
		return err
	}
	if !m.Force {
		if err := running(theirs, now, "the leases that it is to have", false); err != nil {
			return err
		}
	}
	if m.AnotherLayout {
		if leaseops.IsMoved(theirs...) {
			return errMovedAway
		}
		return nil
	}
	has, gets := leaseops.Layout(records), leaseops.Layout(theirs)
	if has != gets && has != "" && gets != "" {
		return fmt.Errorf("the leases have the layout %s now, and the new ones have %s. If the IDs of the new "+
			"layout are greater than all that are there, use --another-layout", has, gets)
	}
	return nil
}

// running refuses a move while processes hold numbers, or, if strict, until clocks that are apart agree
// that every window is over.
func running(records []lease.Record, now time.Time, where string, strict bool) error {
	for _, r := range records {
		if leaseops.IsKept(r, now) || leaseops.IsMoved(r) && !strict {
			continue
		}
		until := r.Until
		if strict {
			until = until.Add(lease.MaxSkew)
		}
		if until.After(now) {
			return fmt.Errorf("%w: in %s, node %d is held until %s by %q. Stop every program that leases from "+
				"there; a number that was not given back falls free by itself", ErrRefused, where, r.Node,
				until.UTC().Format(time.RFC3339Nano), r.Owner)
		}
	}
	return nil
}

// replace changes the note, if it is still the one that was read.
func (d Database) replace(ctx context.Context, noted *Note, named bool, is Origin) error {
	if noted == nil {
		if !named {
			return nil
		}
		_, err := d.Claim(ctx, is)
		return err
	}
	var changed int64
	err := d.transact(ctx, true, func(q Pool) error {
		s := dialect.Write(d.Kind, "DELETE FROM ", d.quoted())
		if named {
			n := newNote(is)
			s = dialect.Write(d.Kind, "UPDATE ", d.quoted(), " SET ")
			for i, value := range []string{n.ID, n.Layout, fit(n.Place), fit(n.By), n.At} {
				if i > 0 {
					s.Add(", ")
				}
				s.Add(d.Quote(columns()[i+1]), " = ").Bind(value)
			}
		}
		s.Add(" WHERE ", d.Quote("subject"), " = ").Bind(subjectRows)
		s.Add(" AND ", d.Quote("authority"), " = ").Bind(noted.ID)
		result, err := q.ExecContext(ctx, s.String(), s.Args...)
		if err == nil {
			changed, err = result.RowsAffected()
		}
		return err
	})
	if err != nil {
		return d.failed(ctx, err)
	}
	if changed != 1 {
		return errors.New("somebody else has changed the authority meanwhile: look at it again")
	}
	return nil
}
