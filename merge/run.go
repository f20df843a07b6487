package merge

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run merges, or goes on with a merge that was interrupted. On a target that is complete it changes nothing.
//
// Problems that Check would find are returned as [ErrUndecided], with the report in the report. Other errors
// are [ErrLocked], [ErrOtherPlan], [ErrSourceChanged], [ErrRow] and [ErrDatabase]; after all of them the
// target is in a state that Run can go on from. When ctx has ended a connection may be lost, so that it takes
// a new Merge to go on.
func (m *Merge) Run(ctx context.Context) (report *RunReport, err error) {
	began := time.Now()
	report = &RunReport{Plan: m.plan.Hash(), Servers: m.mergedServers()}
	unlock, err := m.lock(ctx)
	if err != nil {
		return report, err
	}
	defer func() {
		err = ended(ctx, errors.Join(err, unlock()))
		report.Took = time.Since(began)
	}()
	state, err := m.state(ctx)
	if err != nil {
		return report, err
	}
	switch {
	case state.name != "" && state.plan != report.Plan:
		return report, fmt.Errorf("%w: drop the target and begin anew, or take back the change of the plan",
			ErrOtherPlan)
	case state.name == stateDone:
		report.Already = true
	case state.name != "":
		report.Resumed = true
	default:
		if report.Check, err = m.check(ctx); err != nil {
			return report, err
		}
		if report.Check.Verdict == Undecided {
			more := ""
			if n := len(report.Check.Problems); n > 1 {
				more = fmt.Sprintf(", and %d more", n-1)
			}
			return report, fmt.Errorf("%w: %s%s", ErrUndecided, report.Check.Problems[0], more)
		}
		if err := m.decide(ctx, report.Check); err != nil {
			return report, fmt.Errorf("the decisions cannot be kept: %w", err)
		}
		m.reach("decided")
	}
	m.d = decisions{m: m, permanent: true}
	if err := m.d.count(ctx); err != nil {
		return report, err
	}
	report.Renamed, report.Dropped = total(m.d.renames), total(m.d.drops)
	r := &running{m: m, report: report}
	if err := r.finish(ctx, state.name); err != nil {
		return report, err
	}
	report.Quarantined, err = m.target.number(ctx, newStatement(m.target.kind, "SELECT COUNT(*) FROM ",
		m.target.kind.quote(tableQuarantine)))
	return report, err
}

// ended says that the context was the reason, which a driver that has given up its connection may not.
func ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// running is a run under way.
type running struct {
	m       *Merge
	report  *RunReport
	entries map[string]map[tableServer]*entry
}

// finish does what is left to do from a state on.
func (r *running) finish(ctx context.Context, state string) (err error) {
	if r.entries, err = r.m.journal(ctx); err != nil {
		return err
	}
	switch state {
	case "", stateDecided:
		if err := r.unchanged(ctx); err != nil {
			return err
		}
		if err := r.copy(ctx); err != nil {
			return err
		}
		fallthrough
	case stateCopied:
		if err := r.fill(ctx); err != nil {
			return err
		}
		fallthrough
	case stateFilled:
		if err := r.m.retire(ctx); err != nil {
			return err
		}
		if hook := r.m.hooks.AfterMerge; hook != nil {
			if err := hook(ctx); err != nil {
				return fmt.Errorf("merge: the hook AfterMerge failed: %w", err)
			}
		}
		r.m.reach("finished")
		if err := r.m.setState(ctx, stateDone); err != nil {
			return err
		}
	}
	r.summary()
	return nil
}

// unchanged makes sure that the sources are as they were when the decisions were taken.
func (r *running) unchanged(ctx context.Context) error {
	for _, w := range r.m.order {
		for _, f := range w.feeds {
			if f == nil {
				continue
			}
			s := r.m.servers[f.server]
			e := r.entries[stepCopy][tableServer{w.name, s.Number}]
			if e == nil {
				return fmt.Errorf("%w: %s: table %s is not in the journal", ErrSourceChanged, s.Name, w.name)
			}
			now, err := r.m.fingerprint(ctx, f)
			if err != nil {
				return err
			}
			if now != e.fingerprint {
				return fmt.Errorf("%w: %s: table %s had %s and now has %s: stop the game server, drop the target "+
					"and "+
					"begin anew", ErrSourceChanged, s.Name, w.name, e.fingerprint, now)
			}
		}
	}
	return nil
}

// copy copies what is not there yet, parents first.
func (r *running) copy(ctx context.Context) error {
	all := int64(0)
	for _, e := range r.entries[stepCopy] {
		all += e.expected
	}
	p := r.m.newProgress("copy", all)
	for _, e := range r.entries[stepCopy] {
		p.skip(e.read)
	}
	began := time.Now()
	for _, w := range r.m.order {
		for _, f := range w.feeds {
			if f == nil {
				continue
			}
			e := r.entries[stepCopy][tableServer{w.name, r.m.servers[f.server].Number}]
			if e.done {
				continue
			}
			before := e.written
			c := &copying{m: r.m, feed: f, entry: e, progress: p}
			way, err := c.all(ctx)
			r.report.Rows += e.written - before
			r.report.Tables = append(r.report.Tables, CopyReport{Table: w.name,
				Server: r.m.servers[f.server].Name, Rows: e.written, Way: way})
			if err != nil {
				return err
			}
		}
		if hook := r.m.hooks.AfterTable; hook != nil {
			if err := hook(ctx, w.name); err != nil {
				return fmt.Errorf("merge: the hook AfterTable failed for %s: %w", w.name, err)
			}
		}
	}
	p.end()
	if took := time.Since(began).Seconds(); took > 0 {
		r.report.RowsPerSecond = float64(r.report.Rows) / took
	}
	if err := r.m.resetSequences(ctx); err != nil {
		return err
	}
	return r.m.setState(ctx, stateCopied)
}

// summary lists what is in the target if this run had nothing to copy.
func (r *running) summary() {
	if len(r.report.Tables) > 0 {
		return
	}
	for _, w := range r.m.order {
		for _, f := range w.feeds {
			if f == nil {
				continue
			}
			s := r.m.servers[f.server]
			if e := r.entries[stepCopy][tableServer{w.name, s.Number}]; e != nil {
				r.report.Tables = append(r.report.Tables, CopyReport{Table: w.name, Server: s.Name, Rows: e.written})
			}
		}
	}
}
