package merge

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/verify"
)

// verifier lets package verify compare the target with the sources. It hands over what the plan promises, and
// nothing that the run has computed.
type verifier struct {
	ws      *workspace
	journal *journal
	report  *VerifyReport
}

// verify is [Merge.Verify].
func (v *verifier) verify(ctx context.Context) (*VerifyReport, error) {
	began := time.Now()
	state, err := v.journal.state(ctx)
	if err != nil {
		return nil, err
	}
	report := v.report
	switch {
	case state.name == "":
		return nil, fmt.Errorf("%w: nothing has been merged into the target", ErrNotRun)
	case state.plan != report.Plan:
		return nil, fmt.Errorf("%w: verify with the plan of the run", ErrOtherPlan)
	case state.name != stateDone:
		return nil, fmt.Errorf("%w: the state is %s: run again, it goes on where it ended", ErrNotRun,
			state.name)
	}
	total, err := v.total(ctx)
	if err != nil {
		return nil, err
	}
	p := v.ws.newProgress("verify", total)
	findings, err := verify.Run(ctx, v.promises(p))
	switch {
	case err == nil:
	case errors.Is(err, ErrOpen), errors.Is(err, ErrRow):
		return nil, fmt.Errorf("verify: %w", err)
	default:
		return nil, fmt.Errorf("%w: verify: %w", ErrDatabase, ended(ctx, err))
	}
	p.end()
	for _, f := range findings {
		c := Comparison(f)
		report.Checks = append(report.Checks, c)
		if !c.OK {
			report.Failed = append(report.Failed, c)
		}
	}
	report.OK = len(report.Failed) == 0
	text, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	report.Seal, report.Took = hex.EncodeToString(sum[:]), time.Since(began)
	return report, nil
}

// total returns how many rows there are to read, for the progress.
func (v *verifier) total(ctx context.Context) (rows int64, err error) {
	entries, err := v.journal.entries(ctx)
	for _, e := range entries[stepCopy] {
		rows += e.read + e.written
	}
	return rows, err
}

// promises is the plan in the words of package verify.
func (v *verifier) promises(p *progress) *verify.Plan {
	plan := v.ws.plan
	all := &verify.Plan{
		Target: v.server(Server{Name: plan.Target.Name, Number: plan.Target.Number, DSN: plan.Target.DSN}),
		Shift:  v.ws.layout.shift, Mask: v.ws.layout.mask, Counted: v.ws.minGenerated,
		Tables: map[string]*verify.Table{}, Progress: p.add,
	}
	for _, own := range ownTables() {
		all.Own = append(all.Own, own.name)
	}
	for _, s := range plan.Servers {
		all.Servers = append(all.Servers, v.server(s))
	}
	for _, s := range plan.Conserve {
		all.Sums = append(all.Sums, verify.Sum(s))
	}
	for name, t := range plan.Tables {
		all.Tables[name] = v.table(t)
		all.Tables[name].GivesUp = verify.GivenUp(plan.GivesUp[name])
	}
	v.watch(all)
	return all
}

// watch names the columns that hold keys of renumbered tables by the lock, and that change with none.
func (v *verifier) watch(all *verify.Plan) {
	if v.ws.lock == nil {
		return
	}
	for _, table := range slices.Sorted(maps.Keys(v.ws.lock.Tables)) {
		columns := v.ws.lock.Tables[table].Columns
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			own := v.ws.jobs[table]
			if own == nil || own.refers(name) || own.plan.Renumber != "" && own.key().Name == name ||
				own.plan.Set[name] != "" || slices.Contains(own.plan.Sum, name) {
				continue
			}
			for _, j := range v.ws.order {
				if j.plan.Renumber == "" {
					continue
				}
				key := LockedKey{Table: j.name, Column: j.key().Name}
				if !columns[name].holds(key) {
					continue
				}
				all.Watched = append(all.Watched, verify.Watched{Table: table, Column: name, Of: j.name,
					Likely: columns[name].refers(key) && !slices.Contains(v.ws.plan.Plain, table+"."+name)})
			}
		}
	}
}

func (v *verifier) server(s Server) verify.Server {
	return verify.Server{
		Name: s.Name, Number: s.Number, Numbers: append([]int64{s.Number}, s.Also...),
		Open: func(ctx context.Context) (*sql.DB, error) {
			dsn, err := resolveDSN(s.Name, s.DSN)
			if err != nil {
				return nil, err
			}
			pool, err := v.ws.open(ctx, dsn)
			if err != nil { // the words of a driver may hold the DSN
				return nil, fmt.Errorf("%w: %s: a second connection cannot be opened", ErrOpen, s.Name)
			}
			return pool, nil
		},
		Shared: func(pool *sql.DB) bool {
			for _, d := range v.ws.databases() {
				if d.Uses(pool) {
					return true
				}
			}
			return false
		},
	}
}

func (v *verifier) table(t *TablePlan) *verify.Table {
	out := &verify.Table{
		Policy:   string(t.Policy),
		Where:    t.Where,
		Orphans:  t.Orphans,
		Key:      t.Key,
		Sum:      t.Sum,
		Min:      t.Min,
		Max:      t.Max,
		By:       t.By,
		Ignore:   t.Ignore,
		Convert:  t.Convert,
		Renumber: t.Renumber != "",
		First:    t.Renumber == Apart && v.ws.plan.Apart != apartOthers,
		Set:      t.Set,
	}
	for _, r := range t.References {
		out.References = append(
			out.References,
			verify.Reference{Columns: r.columns(), Target: r.Target, Table: r.Table,
				When: r.When, Path: r.Path, List: r.List, Bits: r.Bits},
		)
	}
	if r := t.Rename; r != nil {
		out.Rename = &verify.Rename{Column: r.Column, Keep: r.Keep, By: r.By, Format: r.Format, Max: r.Max,
			When: r.When}
		for _, c := range r.Copies {
			out.Rename.Copies = append(out.Rename.Copies, verify.NameCopy(c))
		}
		for _, d := range r.Derived {
			out.Rename.Derived = append(out.Rename.Derived, verify.Derived(d))
		}
	}
	return out
}
