package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// verifier is a verification under way.
type verifier struct {
	plan     *Plan
	sources  []*database
	target   *database
	jobs     map[string]*job
	findings []Finding
	ahead    atomic.Int64 // rows of the target that were read beside the sources, and of which nobody was told
}

// Run compares the target with the sources. The error is about the comparison itself.
func Run(ctx context.Context, p *Plan) (_ []Finding, err error) {
	v := &verifier{plan: p, jobs: map[string]*job{}}
	defer func() { err = errors.Join(err, v.close()) }()
	for _, s := range p.Servers {
		d, err := open(ctx, s)
		if err != nil {
			return nil, err
		}
		v.sources = append(v.sources, d)
	}
	if v.target, err = open(ctx, p.Target); err != nil {
		return nil, err
	}
	if err := v.relate(); err != nil {
		return nil, err
	}
	order := v.order()
	for _, prepare := range []func(context.Context, *job) error{
		v.readRefused, v.findOffsets, v.readNames, v.findFar,
	} {
		for _, j := range order {
			if err := prepare(ctx, j); err != nil {
				return nil, fmt.Errorf("table %s: %w", j.name, err)
			}
		}
	}
	// Where rows became one, references follow, so these tables come first.
	for _, joined := range []bool{true, false} {
		for _, j := range order {
			if j.plan.joins() != joined {
				continue
			}
			if err := v.table(ctx, j); err != nil {
				return nil, fmt.Errorf("table %s: %w", j.name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Tables)) {
		if err := v.empty(ctx, name); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
	}
	for _, s := range p.Sums {
		if err := v.sum(ctx, s); err != nil {
			return nil, fmt.Errorf("conserve %s: %w", s.Name, err)
		}
	}
	return v.findings, nil
}

func (v *verifier) close() error {
	var err error
	for _, j := range v.jobs {
		j.moved.close()
		j.names.close()
		j.refused.close()
	}
	for _, d := range append(v.sources, v.target) {
		if d != nil {
			err = errors.Join(err, d.close())
		}
	}
	return err
}

// compare notes a comparison.
func (v *verifier) compare(what, table, server, detail, want, got string) {
	v.findings = append(v.findings, Finding{What: what, Table: table, Server: server, Detail: detail,
		Want: want, Got: got, OK: want == got})
}

// progress tells of rows that were read. All calls come from the goroutine of Run, as the plan may rely on.
func (v *verifier) progress(table, server string, rows int) {
	if v.plan.Progress == nil {
		return
	}
	if rows > 0 {
		v.plan.Progress(table, server, rows)
	}
	if beside := v.ahead.Swap(0); beside > 0 {
		v.plan.Progress(table, v.target.Name, int(beside))
	}
}

// table does all that there is to compare about a table.
func (v *verifier) table(ctx context.Context, j *job) error {
	compareRows := v.rows
	if j.plan.joins() {
		compareRows = v.joined
	}
	for _, step := range []func(context.Context, *job) error{compareRows, v.duplicates, v.keepers, v.counters} {
		if err := step(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// empty checks that a table which the game computes anew has no rows.
func (v *verifier) empty(ctx context.Context, name string) error {
	if v.plan.Tables[name].Policy != policyRebuild || v.target.tables[name] == nil {
		return nil
	}
	n, err := v.target.text(ctx, "SELECT COUNT(*) FROM "+v.target.kind.quote(name))
	v.compare("empty", name, "", "rows of a table that is computed anew", "0", n)
	return err
}
