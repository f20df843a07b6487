package merge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// checker looks for everything that stands against a merge. It writes nothing but temporary tables in the
// session of the target, which hold the decisions about single rows.
type checker struct {
	ws        *workspace
	decisions *decisions
	report    *CheckReport
	schema    *schemaCheck
	data      *dataCheck
	ids       *idCheck
	inside    *insideCheck
	values    *valueCheck
	missing   givenUp
}

func newChecker(ws *workspace, d *decisions) *checker {
	report, missing := &CheckReport{Plan: ws.given.Hash()}, givenUp{}
	origins := make([]map[place]origin, len(ws.servers))
	for i := range origins {
		origins[i] = map[place]origin{}
	}
	return &checker{
		ws: ws, decisions: d, report: report, missing: missing,
		schema: &schemaCheck{ws: ws, report: report},
		data:   &dataCheck{ws: ws, report: report, missing: missing},
		ids:    &idCheck{ws: ws, report: report, origins: origins, offsets: d.offsets},
		inside: &insideCheck{ws: ws, report: report},
		values: &valueCheck{ws: ws, report: report, decisions: d, missing: missing,
			definitions: map[*tableJob]string{}},
	}
}

// check is Check on a target that belongs to no merge. Its decisions stay in the temporary tables.
func (c *checker) check(ctx context.Context) (*CheckReport, error) {
	began := time.Now()
	for _, j := range c.ws.order {
		c.report.table(j.name, j.plan.Policy)
	}
	for _, p := range c.ws.problems {
		if p.Code != CodeMissingTable || c.ws.known(p.Table) { // a table that no database has is reported below
			c.report.problem(p)
		}
	}
	c.schema.tables()
	if err := c.schema.undecided(ctx); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	c.schema.inventory()
	c.schema.fires()
	c.schema.hidden()
	c.schema.columns()
	c.schema.circles()
	c.schema.ambiguous()
	for _, look := range []func(context.Context) error{c.schema.closed, c.schema.repeated} {
		if err := look(ctx); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	problems, warnings := leaseProblems(c.ws)
	c.report.Problems = append(c.report.Problems, problems...)
	c.report.Warnings = append(c.report.Warnings, warnings...)
	if len(c.report.Problems) == 0 {
		if err := c.schema.expressions(ctx); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	if len(c.report.Problems) > 0 {
		// The other checks would fail for the same reasons.
		return c.finish(began), nil
	}
	// It decides which rows are copied, so it comes before all that looks at them.
	problems, err := c.ws.elsewhere.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if c.report.Problems = append(c.report.Problems, problems...); len(problems) > 0 {
		return c.finish(began), nil
	}
	for _, step := range []func(context.Context) error{
		c.data.emptyTarget, c.data.counts, c.ids.check, c.data.orphans,
		c.inside.disputed, c.inside.check, c.conflicts, c.data.quiet,
		c.data.estimate, c.balance,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	return c.finish(began), nil
}

func (c *checker) finish(began time.Time) *CheckReport {
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

// conflicts resolves the conflicts of every table, parents first, so that references to merged rows are
// known.
func (c *checker) conflicts(ctx context.Context) error {
	if err := c.decisions.begin(ctx); err != nil {
		return err
	}
	if err := c.decisions.count(ctx); err != nil {
		return err
	}
	c.overflow()
	c.report.Gaps = c.decisions.offsets.gaps
	if len(c.decisions.offsets.beyond)+len(c.decisions.offsets.gapless) > 0 {
		return nil // There are no new keys that could be compared.
	}
	if c.inside.broken {
		return nil // What cannot be read cannot be changed either.
	}
	// The stages of the conflicts have the types of the target: they could not take what it refuses.
	if err := c.values.all(ctx, false); err != nil || c.values.refused {
		return err
	}
	p := c.ws.newProgress("check", c.data.total)
	for _, j := range c.ws.order {
		keys, err := c.open(ctx, j)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			before := c.report.table(j.name, j.plan.Policy).Dropped
			if err := c.resolve(ctx, j, keys, func(n int) { p.add(j.name, "", n) }); err != nil {
				return err
			}
			if c.report.table(j.name, j.plan.Policy).Dropped > before {
				c.collapsedParent(j)
			}
			if err := c.decisions.count(ctx); err != nil {
				return err
			}
		}
	}
	p.end()
	if len(c.report.Problems) > 0 {
		return nil // decisions that cannot be carried out would only be reported twice
	}
	return c.values.all(ctx, true)
}

// open returns the keys of a table in which rows could be equal.
func (c *checker) open(ctx context.Context, j *tableJob) ([]sqldb.UniqueKey, error) {
	var keys []sqldb.UniqueKey
	if len(j.present()) == 0 {
		return nil, nil
	}
	for _, k := range j.target.Keys() {
		disjoint := false
		if j.plan.Policy != Rename || !j.plan.Rename.changes(k) {
			var err error
			if disjoint, err = c.ids.disjoint(ctx, j, k); err != nil {
				return nil, err
			}
		}
		if !disjoint && !j.computed(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 && (j.plan.Policy == Rename || j.plan.Policy.collapses()) {
		keys = slices.DeleteFunc(slices.Clone(j.target.Keys()), j.computed)
	}
	return keys, nil
}

// collapsedParent reports references to merged rows that cannot be led to the rows that stay: those to other
// columns than the primary key and than the key by which rows became one, in which they differ.
func (c *checker) collapsedParent(parent *tableJob) {
	for _, j := range c.ws.order {
		for _, ref := range j.refs {
			if ref.Parent != parent.name || sameNames(ref.Target, parent.target.Primary) {
				continue
			}
			equal := !slices.ContainsFunc(ref.Target,
				func(name string) bool { return !slices.Contains(parent.plan.Key, name) })
			if !equal {
				c.report.problem(Problem{Code: CodeCollapsedParent, Table: j.name,
					Column: strings.Join(ref.Columns, ", "),
					Message: "rows of " + parent.name + " become one with another, and what refers to them by " +
						strings.Join(ref.Target, ", ") + " cannot be led there",
					Remedy: "let it refer to the primary key, or name under key: of " + parent.name +
						" the columns that it refers to, or choose copy or rename for " + parent.name})
			}
		}
	}
}

// overflow reports tables for which there are no new keys, and columns that cannot hold the new keys.
func (c *checker) overflow() {
	for _, j := range c.ws.order {
		if last, ok := c.decisions.offsets.beyond[j.name]; ok {
			c.report.problem(Problem{Code: CodeTotal, Table: j.name, Column: j.key().Name,
				Message: fmt.Sprintf("renumber: the servers have counted so far that new keys would go up to %d, "+
					"and from %d on a key looks like that of a generator of the layout", last, c.ws.minGenerated),
				Remedy: "if the counter of a server is far above its greatest key, and nothing names the keys " +
					"between the two any more, set it back; or merge fewer servers; or give the table new keys by " +
					"the game, made by a generator"})
		}
		if why, ok := c.decisions.offsets.gapless[j.name]; ok {
			c.report.problem(Problem{Code: CodeTotal, Table: j.name, Column: j.key().Name,
				Message: "renumber: apart: " + why,
				Remedy: "widen that column in the target; or, if a few keys lie far beyond the others, give those " +
					"rows smaller ones on their server; or choose renumber: true, by which the keys of later " +
					"servers move behind those of the first"})
		}
		for _, l := range j.follows.links {
			sum, renumbered := c.decisions.offsets.added[tableServer{l.parent, allServers}]
			if !renumbered || l.path+l.list != "" {
				continue
			}
			if col := j.target.Column(l.column); !c.ws.holdsKey(j.name, l, sum) {
				c.report.problem(Problem{Code: CodeTotal, Table: j.name, Column: col.Name,
					Message: fmt.Sprintf("the keys of %s would go up to %d, which %s cannot hold", l.parent, sum,
						col.Declared),
					Remedy: "widen the column in the target"})
			}
		}
	}
}

// resolve resolves the conflicts of a table in some of its keys and reports those that no policy decides.
func (c *checker) resolve(ctx context.Context, j *tableJob, keys []sqldb.UniqueKey, tick func(int)) error {
	r, err := newResolver(ctx, c.decisions, j, keys, c.report, tick)
	if err != nil {
		return err
	}
	switch p := j.plan; {
	case p.Policy == Rename:
		err = (&renamer{resolver: r}).rename(ctx)
	case p.Policy.collapses():
		err = (&collapser{resolver: r}).collapse(ctx)
	}
	if err != nil {
		return err
	}
	// No policy has decided the conflicts that are left now.
	for _, key := range keys {
		if err := r.undecided(ctx, key); err != nil {
			return err
		}
	}
	for _, w := range []*sqldb.Writer{r.drops, r.values} {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return r.stage.drop(ctx)
}

// balance is the last step of a check. It compares what the merge would give up with the lines of the plan.
// As long as there is another problem, the numbers are not those of the merge.
func (c *checker) balance(ctx context.Context) error {
	if len(c.report.Problems) > 0 {
		return nil
	}
	if err := c.notCopied(ctx); err != nil {
		return err
	}
	for share, n := range c.decisions.drops {
		c.missing.add(share, GivenUp{Collapsed: n, Differing: c.decisions.differing[share]})
	}
	c.report.GivesUp = map[string]GivenUp{}
	for _, name := range slices.Sorted(maps.Keys(c.ws.plan.Tables)) {
		var all GivenUp
		var servers []string
		for _, s := range c.ws.servers {
			one := c.missing[tableServer{name, s.Number}]
			if all.add(one); one.rows() > 0 {
				servers = append(servers, fmt.Sprintf("%s %d", s.Name, one.rows()))
			}
		}
		planned := c.ws.plan.GivesUp[name]
		if planned.Quarantined > 0 && c.ws.plan.Tables[name].BadRows == "quarantine" {
			all.Quarantined = planned.Quarantined // only the run knows which rows the target refuses
		}
		if all.rows() > 0 {
			c.report.GivesUp[name] = all
		}
		if all != planned {
			c.report.problem(unbalanced(name, all, planned, servers))
		}
	}
	return nil
}

// notCopied counts the rows of the tables that are not copied.
func (c *checker) notCopied(ctx context.Context) error {
	for name, p := range c.ws.plan.Tables {
		for i, s := range c.ws.servers {
			if s.db.Tables[name] == nil || p.Policy.copies() {
				continue
			}
			n, err := s.db.Number(ctx, sqldb.NewStatement(s.db.Kind, "SELECT COUNT(*) FROM ",
				newSelection(c.ws, i).table(name)))
			if err != nil {
				return fmt.Errorf("%s: table %s: %w", s.Name, name, err)
			}
			if share := (tableServer{name, s.Number}); p.Policy == Rebuild {
				c.missing.add(share, GivenUp{Rebuilt: n})
			} else {
				c.missing.add(share, GivenUp{Skipped: n})
			}
		}
	}
	return nil
}

// unbalanced is the problem that a plan gives up other rows of a table than the merge would.
func unbalanced(table string, all, planned GivenUp, servers []string) Problem {
	p := Problem{Code: CodeGivesUp, Table: table, Count: all.rows(),
		Message: "the target does not get them (" + strings.Join(servers, ", ") + "), and the plan gives up none",
		Remedy:  "if they may be lost, write under gives_up: of the plan " + line(table, all)}
	switch {
	case p.Count == 0:
		p.Message = "the plan gives up " + planned.String() + ", and the target gets every row"
		p.Remedy = "take the table out of gives_up:"
	case planned.rows() > 0:
		p.Message = strings.TrimSuffix(p.Message, "none") + planned.String()
	}
	if all.Differing != planned.Differing {
		p.Message += fmt.Sprintf("; %d of them have other values than the row that stays", all.Differing)
	}
	return p
}
