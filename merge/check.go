package merge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Check looks at everything and writes nothing but temporary tables in the session of the target. What it
// finds is in the report; an error means that it could not look.
func (m *Merge) Check(ctx context.Context) (*CheckReport, error) {
	state, err := m.state(ctx)
	if err != nil {
		return nil, err
	}
	if state.name != "" {
		report := &CheckReport{Plan: m.plan.Hash(), Verdict: Undecided}
		report.problem(Problem{Code: CodeAlreadyBegun, Server: m.target.name,
			Message: "it belongs to a merge already, whose state is " + state.name,
			Remedy: "run goes on with it, verify looks at its result; to begin anew, drop the target and make " +
				"a fresh one"})
		return report, nil
	}
	return m.check(ctx)
}

// check is Check on a target that belongs to no merge. Its decisions stay in the temporary tables.
func (m *Merge) check(ctx context.Context) (*CheckReport, error) {
	began := time.Now()
	c := &checking{m: m, report: &CheckReport{Plan: m.plan.Hash()}, origins: map[originKey]origin{}}
	for _, w := range m.order {
		c.report.table(w.name, w.plan.Policy)
	}
	for _, p := range m.unknown {
		if p.Code != CodeMissingTable || m.known(p.Table) { // what nobody has is not the fault of the target
			c.report.problem(p)
		}
	}
	c.tables()
	c.columns()
	c.circles()
	c.undeclared()
	if len(c.report.Problems) == 0 {
		if err := c.expressions(ctx); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	if len(c.report.Problems) > 0 {
		// The statements of the other checks would fail for the same reasons.
		return c.finish(began), nil
	}
	for _, step := range []func(context.Context) error{
		c.target, c.counts, c.values, c.ids, c.orphans, c.conflicts, c.quiet, c.estimate,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	return c.finish(began), nil
}

// checking is a check under way.
type checking struct {
	m       *Merge
	report  *CheckReport
	origins map[originKey]origin
	prints  map[tableServer]string
	total   int64
	// unreadable rows are a problem by themselves, and keep the others from being compared.
	unreadable bool
}

func (c *checking) finish(began time.Time) *CheckReport {
	r := c.report
	r.Took = time.Since(began)
	resolved := false
	for _, t := range r.Tables {
		resolved = resolved || t.Conflicts > 0
		for _, n := range t.Left {
			resolved = resolved || n > 0
		}
		for _, n := range t.Rows {
			r.Rows += n
		}
		r.Rows -= t.Dropped
	}
	for _, w := range r.Warnings {
		resolved = resolved || w.Code == CodeOrphan && w.Count > 0
	}
	switch {
	case len(r.Problems) > 0:
		r.Verdict = Undecided
	case resolved:
		r.Verdict = Resolved
	}
	return r
}

// tables compares the tables of the databases with those of the plan.
func (c *checking) tables() {
	m := c.m
	for _, d := range m.databases() {
		for _, name := range slices.Sorted(maps.Keys(d.tables)) {
			if m.plan.Tables[name] == nil {
				c.report.problem(Problem{Code: CodeUnknownTable, Server: d.name, Table: name,
					Message: "the plan does not know the table", Remedy: "give it a policy; skip leaves it alone"})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.plan.Tables)) {
		p := m.plan.Tables[name]
		if p.Policy == Custom && m.funcs[p.Func] == nil {
			c.report.problem(Problem{Code: CodePlan, Table: name,
				Message: fmt.Sprintf("no function %q is registered", p.Func),
				Remedy:  "register it by merge.WithFunc in a program of your own"})
		}
		if !m.known(name) {
			c.report.problem(Problem{Code: CodeMissingTable, Table: name, Message: "no database has such a table",
				Remedy: "correct its name in the plan, or take it out"})
			continue
		}
		for _, s := range m.servers {
			if s.tables[name] == nil && p.Policy.copies() && !slices.Contains(p.Absent, s.Name) {
				c.report.problem(Problem{Code: CodeMissingTable, Server: s.Name, Table: name,
					Message: "the server has no such table",
					Remedy:  "if that is right, list the server under absent: of the table"})
			}
		}
	}
}

// known tells whether any database has a table.
func (m *Merge) known(table string) bool {
	return slices.ContainsFunc(m.databases(), func(d *database) bool { return d.tables[table] != nil })
}

// columns compares the columns of each source with those of the target.
func (c *checking) columns() {
	for _, w := range c.m.order {
		c.named(w)
		for _, f := range w.feeds {
			if f != nil {
				c.columnsOf(w, f)
			}
		}
		if len(w.to.triggers) > 0 {
			c.report.warn(Problem{Code: CodeTrigger, Table: w.name, Message: "the target has triggers that will " +
				"fire: " + strings.Join(w.to.triggers, ", "), Remedy: "disable them if they should not"})
		}
	}
}

// named makes sure that the columns that the plan names are there.
func (c *checking) named(w *work) {
	p := w.plan
	names := slices.Concat(p.Key, p.Sum, p.Min, p.Max)
	if p.By != "" {
		names = append(names, p.By)
	}
	if p.Rename != nil {
		names = append(names, p.Rename.Column)
		if p.Rename.By != "" {
			names = append(names, p.Rename.By)
		}
		for _, n := range p.Rename.Copies {
			other := c.m.works[n.Table]
			if other == nil && !c.m.policy(n.Table).copies() {
				continue // nothing of it is copied
			}
			if other == nil || other.to.column(n.Column) == nil || other.to.column(n.Ref) == nil {
				c.report.problem(Problem{Code: CodeNameCopy, Table: w.name,
					Message: fmt.Sprintf("the copy %s.%s by %s is not there, or its table is not copied", n.Table,
						n.Column, n.Ref)})
			}
		}
	}
	for _, name := range names {
		if w.to.column(name) == nil {
			c.report.problem(Problem{Code: CodePlan, Table: w.name, Column: name,
				Message: "the plan names the column, but the target does not have it"})
		}
	}
	if p.Renumber && !w.counted() {
		c.report.problem(Problem{Code: CodePlan, Table: w.name,
			Message: "renumber needs a primary key of one column, a whole number"})
	}
	for _, name := range p.Sum {
		col := w.to.column(name)
		if col != nil && !slices.Contains([]family{familyInt, familyDecimal, familyFloat, familyBool},
			col.family) {
			c.report.problem(Problem{Code: CodePlan, Table: w.name, Column: name,
				Message: "a column of type " + col.declared + " cannot be added"})
		}
	}
	if needsKey := p.Policy == Rename || p.Policy.collapses(); needsKey && len(w.to.primary) == 0 {
		c.report.problem(Problem{Code: CodeNoKey, Table: w.name,
			Message: "the policy " + string(p.Policy) + " has to name rows, and the table has no primary key"})
	}
	for _, k := range w.to.keys() {
		for _, part := range k.parts {
			if part.column == "" && part.expression == "" ||
				part.column != "" && (w.to.column(part.column) == nil || w.to.column(part.column).generated) {
				c.report.warn(Problem{Code: CodeUncheckable, Table: w.name, Column: k.name,
					Message: "the unique key is of something computed, which cannot be compared before it is written"})
			}
		}
	}
}

func (c *checking) columnsOf(w *work, f *feed) {
	s := c.m.servers[f.server]
	for _, from := range f.from.columns {
		if w.to.column(from.name) == nil && !from.generated && !slices.Contains(w.plan.Ignore, from.name) {
			c.report.problem(Problem{Code: CodeMissingColumn, Server: s.Name, Table: w.name, Column: from.name,
				Message: "the target does not have the column, so its values would be lost",
				Remedy:  "add it to the target, or list it under ignore: of the table"})
		}
	}
	for _, to := range w.to.written() {
		if f.has(to.name) {
			continue
		}
		p := Problem{Code: CodeMissingColumn, Server: s.Name, Table: w.name, Column: to.name,
			Message: "the server does not have the column; its rows get the default of the target"}
		if !to.nullable && !to.fallback || slices.Contains(w.to.primary, to.name) {
			p.Message = "the server does not have the column, and the target has no default for it"
			p.Remedy = "bring the server up to the version of the others, or give the column a default"
			c.report.problem(p)
			continue
		}
		c.report.warn(p)
	}
	for _, p := range f.pairs {
		if !fits(p.from, p.to, s.kind, c.m.target.kind) && !slices.Contains(w.plan.Convert, p.to.name) {
			c.report.problem(Problem{Code: CodeColumnType, Server: s.Name, Table: w.name, Column: p.to.name,
				Message: fmt.Sprintf("it is %s there and %s in the target", p.from.declared, p.to.declared),
				Remedy:  "change one of them, or list the column under convert: of the table"})
		}
	}
	if len(f.key) == 0 {
		c.report.warn(Problem{Code: CodeNoKey, Server: s.Name, Table: w.name,
			Message: "the table has no primary key, so it is copied slowly, and orphans and repeated rows are " +
				"not told apart"})
		if w.plan.Policy == Rename || w.plan.Policy.collapses() {
			c.report.problem(Problem{Code: CodeNoKey, Server: s.Name, Table: w.name,
				Message: "the policy " + string(w.plan.Policy) +
					" has to name rows, and the table has no primary key there"})
		}
	}
}

// target makes sure that the tables are empty: a fresh database is what a merge can be undone from.
func (c *checking) target(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.m.plan.Tables)) {
		t := c.m.target.tables[name]
		if c.m.plan.Tables[name].Policy == Skip || t == nil {
			continue
		}
		rows, err := c.m.target.strings(ctx, newStatement(c.m.target.kind, "SELECT 1 FROM ",
			c.m.target.kind.quote(name), " LIMIT 1"))
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			c.report.problem(Problem{Code: CodeNotEmpty, Server: c.m.target.name, Table: name,
				Message: "the table already holds rows",
				Remedy: "merge into a fresh database; a table that the target fills by itself gets the policy " +
					"skip"})
		}
	}
	return nil
}

// conflicts compares the keys of every table that may hold conflicts, parents first, so that references to
// rows that became one with another are known.
func (c *checking) conflicts(ctx context.Context) error {
	m := c.m
	if c.unreadable {
		return nil
	}
	if err := m.d.begin(ctx); err != nil {
		return err
	}
	if err := m.d.count(ctx); err != nil {
		return err
	}
	c.overflow()
	p := m.newProgress("check", c.total)
	for _, w := range m.order {
		keys, err := c.open(ctx, w)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			before := c.report.table(w.name, w.plan.Policy).Dropped
			if err := m.resolve(ctx, w, keys, c.report, func(n int) { p.add(w.name, "", n) }); err != nil {
				return err
			}
			if c.report.table(w.name, w.plan.Policy).Dropped > before {
				c.collapsedParent(w)
			}
			if err := m.d.count(ctx); err != nil {
				return err
			}
		}
	}
	p.end()
	return nil
}

// collapsedParent reports references that cannot be led elsewhere.
func (c *checking) collapsedParent(parent *work) {
	for _, w := range c.m.order {
		for _, ref := range w.refs {
			if ref.parent == parent.name && (len(ref.columns) > 1 || len(parent.to.primary) > 1) &&
				sameNames(ref.target, parent.to.primary) {
				c.report.warn(Problem{Code: CodeNotDisjointRef, Table: w.name, Column: strings.Join(ref.columns,
					", "),
					Message: "rows of " + parent.name +
						" became one with another, and a reference of several columns " +
						"is not led there: verify will count orphans if there are any"})
			}
		}
	}
}

// open returns the keys of a table that could hold conflicts.
func (c *checking) open(ctx context.Context, w *work) ([]uniqueKey, error) {
	var keys []uniqueKey
	feeds := 0
	for _, f := range w.feeds {
		if f != nil {
			feeds++
		}
	}
	if feeds == 0 {
		return nil, nil
	}
	for _, k := range w.to.keys() {
		disjoint := false
		if w.plan.Policy != Rename || !k.about(w.plan.Rename.Column) {
			var err error
			if disjoint, err = c.disjoint(ctx, w, k); err != nil {
				return nil, err
			}
		}
		computed := slices.ContainsFunc(k.parts, func(p keyPart) bool {
			return p.column == "" && p.expression == "" ||
				p.column != "" && (w.to.column(p.column) == nil || w.to.column(p.column).generated)
		})
		if !disjoint && !computed {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 && (w.plan.Policy == Rename || w.plan.Policy.collapses() && len(w.plan.Key) > 0) {
		keys = w.to.keys()
	}
	return keys, nil
}
