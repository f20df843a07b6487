package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/verify"
)

// runner is a run under way.
type runner struct {
	ws        *workspace
	temporary *decisions // those of the check
	decisions *decisions // those that were written down
	report    *RunReport
	entries   map[string]map[tableServer]*entry
}

func (r *runner) run(ctx context.Context) (report *RunReport, err error) {
	began := time.Now()
	report = r.report
	unlock, err := sqldb.Lock(ctx, r.ws.target)
	if err != nil {
		return report, err
	}
	defer func() {
		err = withCause(ctx, errors.Join(err, unlock()))
		report.Took = time.Since(began)
	}()
	state, err := r.ws.journal.state(ctx)
	if err != nil {
		return report, err
	}
	switch {
	case state.name != "" && state.plan != report.Plan:
		return report, fmt.Errorf("%w: undo the change of the plan, or drop the target and begin anew",
			ErrOtherPlan)
	case state.name == stateDone:
		report.Already = true
	case state.name != "":
		report.Resumed = true
		// The sources are what they were, and so are the rows of the target that this looks at.
		c := newChecker(ctx, r.ws, r.temporary).checking
		if r.ws.elsewhere.find(c); c.Err != nil {
			return report, c.Err
		}
	default:
		c := newChecker(ctx, r.ws, r.temporary)
		c.schema.running = true
		if report.Check, err = c.check(); err != nil {
			return report, err
		}
		if report.Check.Verdict == Undecided {
			more := ""
			if n := len(report.Check.Problems); n > 1 {
				more = fmt.Sprintf(", and %d more", n-1)
			}
			return report, fmt.Errorf("%w: %s%s", ErrUndecided, report.Check.Problems[0], more)
		}
		if err := r.decide(ctx, report.Check, c.data.fingerprints); err != nil {
			return report, fmt.Errorf("the decisions cannot be stored: %w", err)
		}
		r.ws.failpoint("decided")
	}
	if err := r.decisions.count(ctx); err != nil {
		return report, err
	}
	report.Renamed, report.Dropped = summed(r.decisions.renames), summed(r.decisions.drops)
	if err := r.finish(ctx, state.name); err != nil {
		return report, err
	}
	refused, err := r.decisions.counts(ctx, r.ws.target.Kind.Quote(tableQuarantine))
	report.Quarantined = summed(refused)
	return report, err
}

// withCause adds the error of the context, which a driver may not report when it has closed its connection.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// finish does what is left to do in a state.
func (r *runner) finish(ctx context.Context, state string) (err error) {
	if r.entries, err = r.ws.journal.entries(ctx); err != nil {
		return err
	}
	switch state {
	case "": // The check has just looked at the sources.
		err = inTurn(ctx, r.copy, r.fill, r.end)
	case stateDecided:
		err = inTurn(ctx, r.unchanged, r.copy, r.fill, r.end)
	case stateCopied:
		err = inTurn(ctx, r.fill, r.end)
	case stateFilled:
		err = r.end(ctx)
	}
	if err != nil || len(r.report.Tables) > 0 {
		return err
	}
	for j, src := range r.ws.sources() { // this run had nothing to copy
		if e := r.entries[stepCopy][src.share()]; e != nil {
			r.report.Tables = append(r.report.Tables,
				CopyReport{Table: j.name, Server: src.owner.Name, Rows: e.written})
		}
	}
	return nil
}

// end does what follows when all rows are there.
func (r *runner) end(ctx context.Context) error {
	retired := func(ctx context.Context) error { return retire(ctx, r.ws) }
	if err := inTurn(ctx, r.balance, retired); err != nil {
		return err
	}
	if hook := r.ws.hooks.AfterMerge; hook != nil {
		if err := hook(ctx); err != nil {
			return fmt.Errorf("merge: the hook AfterMerge failed: %w", err)
		}
	}
	r.ws.failpoint("finished")
	return r.ws.journal.setState(ctx, stateDone)
}

// decide stores the decisions of the check and opens the journal, in one transaction. From then on the plan,
// the decisions and the sources must not change.
func (r *runner) decide(ctx context.Context, check *CheckReport,
	fingerprints map[tableServer]string) error {
	for table := range sorted(ownTables()) {
		if err := r.ws.target.Exec(ctx, ddl(r.ws.target.Kind, table, false)); err != nil {
			return err
		}
	}
	var steps [][]any
	for j, src := range r.ws.sources() { // the check has compared the fingerprints at its end
		s := src.owner
		entry := []any{j.name, s.Number, check.table(j.name).Rows[s.Name],
			fingerprints[src.share()], int64(0), int64(0), int64(0)}
		if steps = append(steps, append([]any{stepCopy}, entry...)); len(r.ws.late(j)) > 0 {
			steps = append(steps, append([]any{stepFill}, entry...))
		}
	}
	servers := sqldb.Mapped(r.ws.mergedServers(), func(s MergedServer) []any {
		return []any{s.Number, s.Name, s.MergedInto, s.Target}
	})
	return r.ws.target.Transaction(ctx, func() error {
		if err := r.temporary.keep(ctx); err != nil {
			return err
		}
		for table, rows := range sorted(map[string][][]any{
			tableOffsets: r.ws.offsets.rows(), tableJournal: steps,
			tableServers: servers, tableRun: {{int64(1), r.ws.given.Hash(), stateDecided}},
		}) {
			if err := keepRows(ctx, r.ws.target, table, rows...); err != nil {
				return err
			}
		}
		return r.keepThings(ctx, false)
	})
}

// keepThings stores what the target has besides rows, without the tables of the merge: before the first row
// all of it, and when all rows are copied where the counters are. The caller has begun a transaction.
func (r *runner) keepThings(ctx context.Context, copied bool) error {
	t := r.ws.target
	things, err := verify.Things(ctx, t.Conn(), string(t.Kind))
	if err != nil {
		return fmt.Errorf("%w: %s: the catalog cannot be read: %w", ErrDatabase, t.Name, err)
	}
	var rows [][]any
	for thing, text := range things {
		switch own := t.Tables[thing.Table] == nil && needed(t.Kind, thing.Table); {
		case !own && !copied:
			rows = append(rows, []any{thing.Kind, thing.Table, thing.Name, text})
		case !own && thing.Kind == verify.KindCounter:
			rows = append(rows, []any{verify.AfterCopying + thing.Kind, thing.Table, thing.Name, text})
		}
	}
	slices.SortFunc(rows, func(a, b []any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return keepRows(ctx, t, tableCatalog, rows...)
}

// unchanged checks that the sources are as they were when the decisions were taken.
func (r *runner) unchanged(ctx context.Context) error {
	now, err := fingerprints(ctx, r.ws, r.ws.copied)
	if err != nil {
		return err
	}
	for j, src := range r.ws.sources() {
		e, text := r.entries[stepCopy][src.share()], now[src.share()]
		if e == nil {
			return fmt.Errorf("%w: %s: table %s is not in the journal", ErrSourceChanged, src.owner.Name, j.name)
		}
		if text != e.fingerprint {
			return fmt.Errorf("%w: %s: table %s had %s and now has %s: stop the game server, drop the target "+
				"and begin anew", ErrSourceChanged, src.owner.Name, j.name, e.fingerprint, text)
		}
	}
	return nil
}

// copy copies the rows that are not in the target yet, parents first.
func (r *runner) copy(ctx context.Context) error {
	all := int64(0)
	for _, e := range r.entries[stepCopy] {
		all += e.expected
	}
	p := r.ws.newProgress("copy", all)
	for _, e := range r.entries[stepCopy] {
		p.Done += e.read
	}
	began := time.Now()
	for _, j := range r.ws.order {
		for _, src := range j.present() {
			e := r.entries[stepCopy][src.share()]
			if e.done {
				continue
			}
			before := e.written
			c := &copier{ws: r.ws, decisions: r.decisions, src: src, entry: e, progress: p}
			way, err := c.all(ctx)
			r.report.Rows += e.written - before
			r.report.Tables = append(r.report.Tables, CopyReport{Table: j.name,
				Server: src.owner.Name, Rows: e.written, Way: way})
			if err != nil {
				return err
			}
		}
		if hook := r.ws.hooks.AfterTable; hook != nil {
			if err := hook(ctx, j.name); err != nil {
				return fmt.Errorf("merge: the hook AfterTable failed for %s: %w", j.name, err)
			}
		}
	}
	p.report()
	if took := time.Since(began).Seconds(); took > 0 {
		r.report.RowsPerSecond = float64(r.report.Rows) / took
	}
	if err := r.setCounters(ctx); err != nil {
		return err
	}
	return r.ws.target.Transaction(ctx, func() error {
		if err := r.keepThings(ctx, true); err != nil {
			return err
		}
		return r.ws.journal.setState(ctx, stateCopied)
	})
}

// setCounters has the target count on behind every key that a server has given out. A row that was deleted
// may still be named in a log, a mail or another database, so its key must not come back. The exception is a
// sequence that counts down, which goes on below the keys that are there.
func (r *runner) setCounters(ctx context.Context) error {
	for _, j := range r.ws.order {
		for _, c := range j.target.Columns {
			if c.Family != sqldb.FamilyInt || !c.HasDefault {
				continue
			}
			counter := int64(0)
			if j.key() == c {
				counter = r.ws.offsets.counter(j.name)
			}
			if err := r.ws.target.SetCounter(ctx, j.target, c.Name, counter); err != nil {
				return fmt.Errorf("table %s: the counter of %s cannot be set: %w", j.name, c.Name, err)
			}
		}
	}
	return nil
}

// balance compares what became of the rows with the lines of the plan, by the journal, the decisions, the
// quarantine, and the number of rows in the target.
func (r *runner) balance(ctx context.Context) error {
	k := r.ws.target.Kind
	refused, err := r.decisions.counts(ctx, k.Quote(tableQuarantine))
	if err != nil {
		return err
	}
	var differ []string
	for _, j := range r.ws.order {
		planned := r.ws.plan.GivesUp[j.name]
		table := k.Quote(j.name)
		if j.target.Heirs { // whose rows are not its own
			table = "ONLY " + table
		}
		present, err := r.ws.target.Count(ctx, " FROM ", table)
		if err != nil {
			return err
		}
		var read, written, stayed int64
		var missing GivenUp
		for _, s := range r.ws.servers {
			share := tableServer{j.name, s.Number}
			e := r.entries[stepCopy][share]
			if e == nil {
				continue
			}
			all, err := rowsIn(e.fingerprint)
			if err != nil {
				return err
			}
			one := GivenUp{Collapsed: r.decisions.drops[share], Differing: r.decisions.differing[share],
				Quarantined: refused[share]}
			missing.add(one)
			read, written, stayed = read+all, written+e.written, stayed+all-e.written-one.rows()
		}
		// What stayed behind is of two sorts. Only a look at the sources tells them apart, and the check had it.
		if missing.Filtered = stayed; stayed == planned.Orphans+planned.Filtered {
			missing.Orphans, missing.Filtered = planned.Orphans, planned.Filtered
		}
		switch {
		case present != written:
			differ = append(differ, fmt.Sprintf("table %s: %d rows were copied, and the target has %d: something "+
				"else writes to it, or a trigger does: one under fires: may change no number of rows that the merge "+
				"copies", j.name, written, present))
		case missing != planned:
			differ = append(differ, fmt.Sprintf("table %s: the plan gives up %v of %d rows, and the run %v: if "+
				"they may be lost, write under gives_up: of the plan %s", j.name, planned, read, missing,
				line(j.name, missing)))
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("%w: %s; then drop the target and begin anew", ErrBalance, strings.Join(differ, "; "))
	}
	return nil
}
