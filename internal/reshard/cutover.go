package reshard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// cutter goes over from the old tables to the new ones.
type cutter struct{ *machine }

// cutover makes the new tables the valid ones, or leaves everything as it was. It returns for how long nobody
// could write.
func (m cutter) cutover(ctx context.Context) (stopped time.Duration, err error) {
	begun, err := m.locate(ctx, held{})
	if err == nil && !begun { // Copying may have taken hours.
		if err = check(ctx, m.machine); err == nil {
			err = dress(ctx, m.machine)
		}
	}
	if err != nil {
		return 0, err
	}
	since := time.Now()
	if !m.atomic {
		if err := m.note(ctx, phaseCutting); err != nil {
			return 0, err
		}
		m.reached(stepCutting)
		err = m.Map.Close(ctx)
		m.reached(stepClosed)
	}
	if err == nil && begun { // Whoever began may have ended long ago.
		err = refuseLosses(ctx, m.machine)
	}
	if err == nil {
		stopped, err = locked(ctx, m.machine, func(h held) error { return m.cut(ctx, h) })
	}
	m.reached(stepCut)
	if m.atomic {
		return stopped, err
	}
	if err != nil {
		// Whatever has ended this process's work, the entries must not stay closed for that.
		return stopped, errors.Join(err, m.retreat(context.WithoutCancel(ctx)))
	}
	if err := m.note(ctx, phaseReplacing); err != nil {
		return stopped, err
	}
	m.reached(stepReplacing)
	err = m.finish(ctx)
	return time.Since(since), err
}

// cut is what a cutover does under the lock.
func (m cutter) cut(ctx context.Context, h held) error {
	err := h.write(ctx, m.home, func(q gorm.ConnPool) error {
		_, err := m.hold(ctx, m.home, q, m.id())
		return err
	})
	if err != nil {
		return err
	}
	m.reached(stepLocked)
	if err := m.settle(ctx, h); err != nil {
		return err
	}
	m.reached(stepSettled)
	for _, t := range tablesOf(m.old) {
		if err := m.rename(ctx, h[t.side.d], t, t.away); err != nil {
			return err
		}
		m.reached(stepRenamed)
	}
	if !m.atomic {
		return nil
	}
	q := h[m.home]
	if err := m.noteIn(ctx, q, phaseCut); err != nil {
		return err
	}
	err = m.Map.Replace(ctx, m.home.handle(ctx, q))
	m.reached(stepReplaced)
	return err
}

// settle copies and compares what is listed, while nobody can add to that.
func (m cutter) settle(ctx context.Context, h held) error {
	if err := m.refuseChanges(ctx, h); err != nil {
		return err
	}
	if err := m.drainHeld(ctx, h); err != nil {
		return err
	}
	if err := addForeignKeys(ctx, m.machine, h); err != nil {
		return err
	}
	if err := continueNumbers(ctx, m.machine, h); err != nil {
		return err
	}
	return m.testify(ctx, h)
}

// refuseChanges returns an error if an old table is not as it was when it was looked at last. A migration may
// have come between that and the lock.
func (m cutter) refuseChanges(ctx context.Context, h held) error {
	for _, t := range tablesOf(m.old) {
		missing, more, err := missingTriggers(ctx, h[t.side.d], t)
		switch {
		case err != nil:
			return err
		case len(missing) > 0:
			return fmt.Errorf("%w: somebody has dropped or switched off the trigger %s of %s meanwhile, so not "+
				"all writes were seen: see that nobody does so again, and call the step again", errs.ErrSharding,
				missing[0].name, t.now)
		case len(more) > 0:
			return fmt.Errorf("%w: somebody has made the trigger %s of %s meanwhile, and it would stay with the "+
				"old table: drop it, call the step again, and make it on the new table", errs.ErrSharding,
				more[0], t.now)
		}
	}
	changed := func(what, table string) error {
		return fmt.Errorf("%w: somebody has changed %s of %s meanwhile: call the step again", errs.ErrSharding,
			what, table)
	}
	for _, mv := range m.moves {
		columns, err := mv.old.side.d.columnsOf(ctx, h[mv.old.side.d], mv.old.now)
		if err != nil {
			return err
		}
		if !slices.Equal(columns, mv.oldColumns) {
			return changed("the columns", mv.old.now)
		}
	}
	for _, t := range tablesOf(m.old) {
		facts, err := factsOf(ctx, h, t)
		if err != nil {
			return err
		}
		if !slices.Equal(facts, t.facts) {
			return changed("indexes or constraints", t.now)
		}
	}
	return nil
}

// drainHeld copies what is listed until nothing is. What differs in one round has had a copy in its way, such
// as that of a row of another old table, which is right by the next round. If no copy becomes right in all of
// the lists, none will.
func (m cutter) drainHeld(ctx context.Context, h held) error {
	for stuck := int64(0); ; {
		read, differ := int64(0), []int64(nil)
		for _, s := range m.old {
			n, some, err := s.drain(ctx, h, maxRound*m.Chunk)
			if err != nil {
				return err
			}
			read, differ = read+n, append(differ, some...)
		}
		if read == 0 {
			return nil
		}
		if stuck += read; int64(len(differ)) < read {
			stuck = 0
			continue
		}
		left, err := count(ctx, h, m.old, func(s *side) string { return s.d.Quoted(s.keys) })
		if err != nil {
			return err
		}
		if stuck > left {
			return fmt.Errorf("%w: %d copies of rows of %s and the tables beside it differ from them, such as "+
				"that of %d, and copying them again does not help: see that nothing changes rows of the new "+
				"tables, such as a trigger, and call the step again", errs.ErrSharding, len(differ),
				m.old[0].tables[0].now, differ[0])
		}
	}
}

// testify finds out what no trigger has seen: whether somebody has emptied an old table, which takes as long
// for many rows as for few, unless all witnesses were written to. On SQLite a row may have replaced another
// one, so its rows are counted.
func (m cutter) testify(ctx context.Context, h held) error {
	for n, first := range m.old[0].tables {
		counted := false
		for _, s := range m.old {
			t := s.tables[n]
			if len(t.witnesses) == 0 {
				counted = true
				continue
			}
			there, err := numbersIn(ctx, h.reader(s.d), t, slices.Collect(maps.Keys(t.witnesses)))
			if err != nil {
				return err
			}
			if slices.Sort(there); len(slices.Compact(there)) < len(t.witnesses) {
				return fmt.Errorf("%w: the table %s was emptied", errUnseen, t.now)
			}
		}
		if !counted {
			continue
		}
		table := func(s *side) string { return s.tables[n].quoted() }
		rows, err := count(ctx, h, m.old, table)
		if err != nil {
			return err
		}
		copies, err := count(ctx, h, m.fresh, table)
		if err != nil {
			return err
		}
		if rows != copies {
			return fmt.Errorf("%w: %s has %d rows, and %d copies", errUnseen, first.now, rows, copies)
		}
	}
	return nil
}

// count counts the rows of one table of each of some entries.
func count(ctx context.Context, h held, sides []*side, table func(*side) string) (all int64, err error) {
	for _, s := range sides {
		rows, err := number(ctx, h.reader(s.d), "SELECT COUNT(*) FROM "+table(s))
		if err != nil {
			return 0, err
		}
		all += rows
	}
	return all, nil
}

// rename gives an old table another name, if it has another one.
func (m cutter) rename(ctx context.Context, q gorm.ConnPool, t *table, name string) error {
	if t.now == name {
		return nil
	}
	if err := run(ctx, q, t.side.d.rename(t.quoted(), name)...); err != nil {
		return err
	}
	t.now = name
	return nil
}

// retreat gives the old tables their names back, and opens their entries. These are still valid.
func (m cutter) retreat(ctx context.Context) error {
	err := m.fenced(ctx, func(h held) error {
		if _, err := m.locate(ctx, h); err != nil {
			return err
		}
		for _, t := range tablesOf(m.old) {
			if err := m.rename(ctx, h[t.side.d], t, t.Name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.Map.Open(ctx)
}

// finish ends a cutover whose tables are all renamed.
func (m cutter) finish(ctx context.Context) error {
	current, err := m.phaseNow(ctx)
	if err != nil || current == phaseCut {
		return err
	}
	if err := m.Map.Replace(ctx, nil); err != nil {
		return err
	}
	m.reached(stepEntered)
	if err := m.Map.Open(ctx); err != nil {
		return err
	}
	m.reached(stepOpened)
	return m.note(ctx, phaseCut)
}
