package reshard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

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
		return 0, m.failed("ending the cutover", cutter{m}.finish(ctx))
	}
	if err := m.prepare(ctx); err != nil {
		return 0, m.failed("preparing", err)
	}
	if err := m.copyAll(ctx); err != nil {
		return 0, m.failed("copying", err)
	}
	for range maxCutovers {
		if err = m.approach(ctx); err == nil {
			stopped, err = cutter{m}.cutover(ctx)
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
		err = cutter{m}.retreat(ctx)
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
	there, err := s.d.HasTable(ctx, s.d.pool, s.keys)
	if err != nil || !there {
		return err
	}
	late, err := number(ctx, s.d.pool, "SELECT COUNT(*) FROM "+s.d.Quoted(s.keys))
	if err == nil && late > 0 {
		err = fmt.Errorf("%w: %d writes to the old tables came after the cutover, whose keys are in %s: move "+
			"these rows by hand, and empty that table", errs.ErrSharding, late, s.keys)
	}
	return err
}

// dropTables drops the tables of some entries that are there, whatever foreign keys they have to each other.
func (m *machine) dropTables(ctx context.Context, h held, sides []*side) error {
	for _, s := range sides {
		names := quotedTables(s)
		if s.d.Kind == dialect.PostgreSQL {
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
