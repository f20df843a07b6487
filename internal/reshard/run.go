package reshard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Run does the job to the end of its cutover, from wherever it stands. It returns how long writes to the
// shards had to wait at the most.
func (j *Job) Run(ctx context.Context) (stopped time.Duration, err error) {
	m, err := j.open()
	if err != nil {
		return 0, err
	}
	current, err := m.phaseNow(ctx)
	if err == nil && current == "" {
		if m.Over { // Clean has broken off after its last step.
			return 0, nil
		}
		err = check(ctx, m) // Nothing is made yet, not even the journal.
	}
	if err == nil {
		current, err = m.take(ctx)
	}
	m.reached(stepTaken)
	if err != nil {
		return 0, m.failed("beginning", err)
	}
	switch current {
	case phaseDropping:
		return 0, fmt.Errorf("%w: job %s is being dropped: call Drop again", errs.ErrSharding, m.Name)
	case phaseReplacing, phaseCut:
		return 0, m.failed("ending the cutover", m.finish(ctx))
	}
	if err := m.prepare(ctx); err != nil {
		return 0, m.failed("preparing", err)
	}
	if err := m.copyAll(ctx); err != nil {
		return 0, m.failed("copying", err)
	}
	for range maxCutovers {
		if err = m.approach(ctx); err == nil {
			stopped, err = m.cutover(ctx)
		}
		if !errors.Is(err, errUnseen) {
			break
		}
	}
	return stopped, m.failed("cutting over", err)
}

// maxCutovers is how often a cutover is tried while rows are written that no trigger sees.
const maxCutovers = 3

// failed says which job an error is of.
func (m *machine) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if dialect.Missing(err) && !errors.Is(err, errs.ErrSharding) {
		err = fmt.Errorf("%w: a table is gone, which happens when another process goes on with the job: look at "+
			"its state, and call the step again: %w", errs.ErrSharding, err)
	}
	return fmt.Errorf("snowflakeplugin: reshard %s: %s: %w", m.Name, doing, err)
}

// Check refuses what Run would refuse, reports how much space the copies need, and makes nothing.
func (j *Job) Check(ctx context.Context) error {
	m, err := j.open()
	if err == nil {
		err = checkColocated(ctx, m)
	}
	if err == nil {
		err = check(ctx, m)
	}
	if err != nil {
		return err
	}
	bytes, err := bytesOf(ctx, m)
	if err == nil {
		m.Progress(Progress{Step: "check", Bytes: bytes})
	}
	return err
}

// prepare brings a job to where rows can be copied.
func (m *machine) prepare(ctx context.Context) error {
	begun, err := m.locate(ctx, held{})
	if err != nil {
		return err
	}
	if !begun {
		if err := check(ctx, m); err != nil {
			return err
		}
		for _, s := range m.fresh {
			if err := m.Make(ctx, s.Entry); err != nil {
				return err
			}
		}
		m.reached(stepMade)
	}
	for _, mv := range m.moves {
		if err := mv.readColumns(ctx); err != nil {
			return err
		}
	}
	if begun {
		return nil
	}
	if err := dress(ctx, m); err != nil {
		return err
	}
	for _, s := range m.old {
		if err := s.capture(ctx); err != nil {
			return err
		}
	}
	return nil
}

// copyAll copies all rows that are not copied yet.
func (m *machine) copyAll(ctx context.Context) error {
	for _, mv := range m.moves {
		count, err := number(ctx, mv.old.side.d.pool, "SELECT COUNT(*) FROM "+mv.old.quoted()+
			" WHERE "+mv.belongs)
		if err != nil {
			return err
		}
		since, moved := time.Now(), int64(0)
		for done := false; !done; {
			r, n, err := mv.copyChunk(ctx)
			if err != nil {
				return fmt.Errorf("%s from %s: %w", mv.fresh.Name, mv.old.now, err)
			}
			moved, done = moved+n, r.last == math.MaxInt64
			p := Progress{Step: "copy", Table: mv.fresh.Name, Rows: r.copied, Of: max(count, r.copied)}
			if taken := time.Since(since).Seconds(); taken > 0 && moved > 0 {
				p.PerSecond = float64(moved) / taken
				p.Left = time.Duration(float64(p.Of-p.Rows) / p.PerSecond * float64(time.Second))
			}
			m.Progress(p)
			m.reached(stepCopied)
			if m.RowsPerSecond == 0 {
				continue
			}
			seconds := float64(moved) / float64(m.RowsPerSecond)
			if attempt.Sleep(ctx, time.Until(since.Add(time.Duration(seconds*float64(time.Second))))) != nil {
				return errs.Ended(ctx)
			}
		}
	}
	return nil
}

// approach copies what was written meanwhile until little is left of that, compares everything, and does so
// again with what differs.
func (m *machine) approach(ctx context.Context) error {
	if err := m.drainOpen(ctx); err != nil {
		return err
	}
	for _, t := range tablesOf(m.old) {
		if err := t.choose(ctx); err != nil {
			return err
		}
	}
	for _, mv := range m.moves {
		if err := mv.compareAll(ctx); err != nil {
			return fmt.Errorf("comparing %s with %s: %w", mv.fresh.Name, mv.old.now, err)
		}
		m.Progress(Progress{Step: "compare", Table: mv.fresh.Name})
	}
	m.reached(stepCompared)
	return m.drainOpen(ctx)
}

// drainOpen goes through the list while others add to it, until a round is short.
func (m *machine) drainOpen(ctx context.Context) error {
	short := shortRound
	// A longer round takes less time for each key, so in the end it is faster than those who write.
	for limit := m.Chunk; ; limit = min(2*limit, maxRound*m.Chunk) {
		all, since := int64(0), time.Now()
		for _, s := range m.old {
			n, _, err := s.drain(ctx, held{}, limit)
			if err != nil {
				return err
			}
			all += n
		}
		m.Progress(Progress{Step: "drain", Rows: all})
		m.reached(stepDrained)
		if all >= int64(limit) {
			continue
		}
		if time.Since(since) < short || all < fewKeys {
			return nil
		}
		if short < longestRound {
			short += shortRound / 4
		}
	}
}

// shortRound is what is left to the cutover, which takes as long for what is written meanwhile. On a busy
// server no round may be so short, although each empties the list. So every such round lets the next one take
// longer, up to longestRound. A round of fewKeys is as near as it gets.
const (
	shortRound   = 100 * time.Millisecond
	longestRound = 500 * time.Millisecond
	fewKeys      = 50
)

// cutover makes the new tables the valid ones, or leaves everything as it was. It returns for how long nobody
// could write.
func (m *machine) cutover(ctx context.Context) (stopped time.Duration, err error) {
	begun, err := m.locate(ctx, held{})
	if err == nil && !begun { // Copying may have taken hours.
		if err = check(ctx, m); err == nil {
			err = dress(ctx, m)
		}
	}
	if err != nil {
		return 0, err
	}
	since := time.Now()
	if !m.atomic {
		if err := m.note(ctx, phaseCopying); err != nil { // Whoever has lost the job must close nothing.
			return 0, err
		}
		m.reached(stepCutting)
		err = m.Map.Close(ctx)
		m.reached(stepClosed)
	}
	if err == nil && begun { // Whoever began may have ended long ago.
		err = refuseLosses(ctx, m)
	}
	if err == nil {
		stopped, err = locked(ctx, m, func(h held) error { return m.cut(ctx, h) })
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
func (m *machine) cut(ctx context.Context, h held) error {
	if m.atomic {
		if err := m.Map.Lock(ctx, m.home.handle(ctx, h[m.home])); err != nil {
			return err
		}
	}
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
func (m *machine) settle(ctx context.Context, h held) error {
	if err := m.refuseChanges(ctx, h); err != nil {
		return err
	}
	if err := m.drainHeld(ctx, h); err != nil {
		return err
	}
	if err := addForeignKeys(ctx, m, h); err != nil {
		return err
	}
	if err := continueNumbers(ctx, m, h); err != nil {
		return err
	}
	return m.testify(ctx, h)
}

// refuseChanges returns an error if an old table is not as it was when it was looked at last. A migration may
// have come between that and the lock.
func (m *machine) refuseChanges(ctx context.Context, h held) error {
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
func (m *machine) drainHeld(ctx context.Context, h held) error {
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
func (m *machine) testify(ctx context.Context, h held) error {
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
func (m *machine) rename(ctx context.Context, q gorm.ConnPool, t *table, name string) error {
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
func (m *machine) retreat(ctx context.Context) error {
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
func (m *machine) finish(ctx context.Context) error {
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

// Drop ends a job before its cutover, and removes all that it has made.
func (j *Job) Drop(ctx context.Context) error {
	m, err := j.open()
	if err != nil {
		return err
	}
	current, err := m.take(ctx)
	if err == nil && (current == phaseReplacing || current == phaseCut) {
		err = fmt.Errorf("%w: the cutover is over, so the way back is another job", errs.ErrSharding)
	}
	if err == nil {
		err = m.note(ctx, phaseDropping)
	}
	if err == nil {
		err = m.retreat(ctx)
	}
	if err == nil {
		err = m.end(ctx, m.fresh)
	}
	return m.failed("dropping", err)
}

// end drops tables that nobody reads, removes what the job has made beside them, and forgets the job.
func (m *machine) end(ctx context.Context, sides []*side) error {
	err := m.fenced(ctx, func(h held) error { return m.dropTables(ctx, h, sides) })
	for _, s := range m.old {
		if err == nil {
			err = s.release(ctx)
		}
	}
	if err == nil {
		err = m.forget(ctx)
	}
	return err
}

// Clean drops the old tables after the cutover, and forgets the job.
func (j *Job) Clean(ctx context.Context) error {
	m, err := j.open()
	if err != nil {
		return err
	}
	current, err := m.phaseNow(ctx)
	switch {
	case err != nil:
		return m.failed("cleaning", err)
	case current == "":
		return nil
	case current != phaseCut:
		return fmt.Errorf("%w: job %s has not cut over yet, so there is nothing to clean", errs.ErrSharding,
			m.Name)
	}
	for _, t := range tablesOf(m.old) {
		t.now = t.away
	}
	_, err = m.take(ctx)
	for _, s := range m.old {
		if err == nil {
			err = m.checkLate(ctx, s)
		}
	}
	if err == nil {
		err = validateForeignKeys(ctx, m)
	}
	if err == nil {
		err = m.end(ctx, m.old)
	}
	return m.failed("cleaning", err)
}

// checkLate refuses to drop a table that somebody has written to under its new name.
func (m *machine) checkLate(ctx context.Context, s *side) error {
	late, err := number(ctx, s.d.pool, "SELECT COUNT(*) FROM "+s.d.Quoted(s.keys))
	switch {
	case dialect.Missing(err): // Clean has broken off behind that.
		return nil
	case late > 0:
		err = fmt.Errorf("%w: %d writes to the old tables came after the cutover, whose keys are in %s: move "+
			"these rows by hand, and empty that table", errs.ErrSharding, late, s.keys)
	}
	return err
}

// dropTables drops the tables of some entries that are there, whatever foreign keys they have to each other.
func (m *machine) dropTables(ctx context.Context, h held, sides []*side) error {
	for _, s := range sides {
		names := quotedTables(s)
		if s.d.ChecksAtOnce() {
			names = []string{strings.Join(names, ", ")} // It drops both ends of a foreign key only together.
		}
		for _, name := range names {
			if err := run(ctx, h[s.d], "DROP TABLE IF EXISTS "+name); err != nil {
				return err
			}
			m.reached(stepDropped)
		}
	}
	return nil
}
