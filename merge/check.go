package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// checker looks for everything that stands against a merge. It writes nothing but temporary tables in the
// session of the target, which hold the decisions about single rows.
type checker struct {
	*checking
	decisions *decisions
	schema    *schemaCheck
	data      *dataCheck
	ids       *idCheck
	inside    *insideCheck
	values    *valueCheck
}

// checking is what the parts of a check work on. The check ends with the first error of its Asker.
type checking struct {
	*sqldb.Asker
	ws      *workspace
	report  *CheckReport
	missing givenUp // what the target will not get
}

// do calls functions until one of them fails.
func (c *checking) do(all ...func(context.Context) error) {
	if c.Err == nil {
		c.Err = inTurn(c.Ctx, all...)
	}
}

// eachSource calls fn for every source table, parents first.
func (c *checking) eachSource(fn func(j *tableJob, src *sourceTable, s *server)) {
	for j, src := range c.ws.sources() {
		if c.Err != nil {
			return
		}
		if fn(j, src, src.owner); c.Err != nil {
			c.Err = fmt.Errorf("%s: table %s: %w", src.owner.Name, j.name, c.Err)
		}
	}
}

// found reports a problem with some rows, unless there are none.
func (c *checking) found(n int64, p Problem) {
	p.Count = n
	c.report.problemIf(n > 0, p)
}

func newChecker(ctx context.Context, ws *workspace, d *decisions) *checker {
	c := &checking{Asker: sqldb.NewAsker(ctx), ws: ws, report: &CheckReport{Plan: ws.given.Hash()},
		missing: givenUp{}}
	return &checker{
		checking: c, decisions: d, schema: &schemaCheck{checking: c}, data: &dataCheck{checking: c},
		ids: &idCheck{checking: c, origins: map[ofColumn]origin{}}, inside: &insideCheck{checking: c},
		values: &valueCheck{checking: c, decisions: d},
	}
}

// check is Check on a target that belongs to no merge. Its decisions stay in the temporary tables.
func (c *checker) check() (*CheckReport, error) {
	began := time.Now()
	if c.look(); c.Err != nil {
		return nil, fmt.Errorf("check: %w", withCause(c.Ctx, c.Err))
	}
	return c.finish(began), nil
}

// look looks at everything, the plan and the catalogs first.
func (c *checker) look() {
	for _, j := range c.ws.order {
		c.report.Tables = append(c.report.Tables, TableReport{Name: j.name, Policy: j.plan.Policy,
			Rows: map[string]int64{}, Left: map[string]int64{}})
	}
	for _, p := range c.ws.problems { // a table that no database has is reported below
		c.report.problemIf(p.Code != CodeMissingTable || c.ws.known(p.Table), p)
	}
	c.schema.tables()
	c.schema.undecided()
	c.schema.inventory()
	c.schema.fires()
	c.schema.columns()
	c.schema.circles()
	c.schema.ambiguous()
	c.schema.closed()
	c.schema.repeated()
	c.schema.defaults()
	leaseProblems(c.ws, c.report)
	// After each of these, all others would fail for the same reasons. The second one decides which rows are
	// copied, so it comes before all that looks at them.
	elsewhere := func() { c.ws.elsewhere.find(c.checking) }
	for _, step := range []func(){c.schema.expressions, elsewhere, c.rows} {
		if c.Err == nil && len(c.report.Problems) == 0 {
			step()
		}
	}
}

// rows looks at the rows, of the target first.
func (c *checker) rows() {
	for _, step := range []func(){
		c.data.emptyTarget, c.data.counts, c.ids.check, c.data.orphans, c.inside.disputed, c.inside.check,
		c.conflicts, c.data.quiet, c.data.estimate, c.balance,
	} {
		if c.Err == nil {
			step()
		}
	}
}

func (c *checker) finish(began time.Time) *CheckReport {
	r := c.report
	r.Took = time.Since(began)
	resolved := false
	for _, t := range r.Tables {
		resolved = resolved || t.Conflicts > 0 || len(t.Left) > 0
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
func (c *checker) conflicts() {
	c.do(c.decisions.begin, c.decisions.count)
	c.overflow()
	c.report.Gaps = c.ws.offsets.gaps
	// Without new keys nothing can be compared, and what cannot be read cannot be changed either.
	if c.Err != nil || len(c.ws.offsets.faults) > 0 || c.inside.broken {
		return
	}
	// The stages of the conflicts have the types of the target: they could not take what it refuses.
	if c.values.all(false); c.Err != nil || c.values.refused {
		return
	}
	p := c.ws.newProgress("check", c.data.total)
	for _, j := range c.ws.order {
		if keys := c.open(j); c.Err == nil && len(keys) > 0 {
			c.resolve(j, keys, func(n int) { p.add(j.name, "", n) })
			decided := c.report.table(j.name)
			if decided.Dropped > 0 {
				c.collapsedParent(j)
			}
			if decided.Dropped+decided.Renamed > 0 {
				c.do(c.decisions.count)
			}
		}
	}
	p.report()
	if c.Err == nil && len(c.report.Problems) == 0 { // of what cannot be carried out, it would say the same
		c.values.all(true)
	}
}

// open returns the keys of a table in which rows could be equal.
func (c *checker) open(j *tableJob) (keys []sqldb.UniqueKey) {
	if len(j.present()) == 0 {
		return nil
	}
	all := slices.DeleteFunc(slices.Clone(j.target.Keys()), j.computed)
	for _, k := range all {
		if j.plan.Rename.changes(k) || !c.ids.disjoint(j, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 && j.keyed() {
		return all
	}
	return keys
}

// collapsedParent reports references to merged rows that cannot be led to the rows that stay: those to other
// columns than the primary key and than the key by which rows became one, in which they differ.
func (c *checker) collapsedParent(parent *tableJob) {
	for _, j := range c.ws.order {
		for _, ref := range j.refs {
			if ref.Parent != parent.name || sameNames(ref.Target, parent.target.Primary) {
				continue
			}
			apart := func(name string) bool { return !slices.Contains(parent.plan.Key, name) }
			c.report.problemIf(slices.ContainsFunc(ref.Target, apart), Problem{Code: CodeCollapsedParent,
				Table: j.name, Column: strings.Join(ref.Columns, ", "),
				Message: "rows of " + parent.name + " become one with another, and what refers to them by " +
					strings.Join(ref.Target, ", ") + " cannot be led there",
				Remedy: "let it refer to the primary key, or name under key: of " + parent.name +
					" the columns that it refers to, or choose copy or rename for " + parent.name})
		}
	}
}

// overflow reports tables for which there are no new keys, and columns that cannot hold the new keys.
func (c *checker) overflow() {
	c.report.Problems = append(c.report.Problems, c.ws.offsets.faults...)
	for _, j := range c.ws.order {
		for _, l := range j.follows.links {
			sum, renumbered := c.ws.offsets.added[tableServer{l.parent, allServers}]
			if !renumbered || l.path+l.list != "" {
				continue
			}
			c.report.problemIf(!c.ws.holdsKey(j.name, l, sum), Problem{Code: CodeTotal, Table: j.name,
				Column: l.column, Remedy: "widen the column in the target",
				Message: fmt.Sprintf("the keys of %s would go up to %d, which %s cannot hold", l.parent, sum,
					j.target.Column(l.column).Declared)})
		}
	}
}

// resolve resolves the conflicts of a table in some of its keys and reports those that no policy decides.
func (c *checker) resolve(j *tableJob, keys []sqldb.UniqueKey, tick func(int)) {
	r, err := newResolver(c.Ctx, c.decisions, j, keys, c.report, tick)
	if err != nil {
		c.Fail(err)
		return
	}
	c.report.Problems = append(c.report.Problems, r.stage.narrow...)
	switch p := j.plan; {
	case len(r.stage.narrow) > 0:
		keys = nil // rows that the stage lacks cannot be compared
	case p.Policy == Rename:
		err = (&renamer{resolver: r}).rename(c.Ctx)
	case p.Policy.collapses():
		err = (&collapser{resolver: r}).collapse(c.Ctx)
	}
	for _, key := range keys { // No policy has decided the conflicts that are left now.
		if err == nil {
			err = r.undecided(c.Ctx, key)
		}
	}
	c.Fail(cmp.Or(err, errors.Join(r.drops.Close(), r.values.Close(), r.stage.drop(c.Ctx))))
}

// balance is the last step of a check. It compares what the merge would give up with the lines of the plan.
// As long as there is another problem, the numbers are not those of the merge.
func (c *checker) balance() {
	if len(c.report.Problems) > 0 {
		return
	}
	for share, n := range c.decisions.drops {
		c.missing.add(share, GivenUp{Collapsed: n, Differing: c.decisions.differing[share]})
	}
	c.report.GivesUp = map[string]GivenUp{}
	for name, table := range sorted(c.ws.plan.Tables) {
		var all GivenUp
		var servers []string
		planned := c.ws.plan.GivesUp[name]
		held := table.Policy == Skip && planned == (GivenUp{}) && c.held(name)
		for i, s := range c.ws.servers {
			one := c.missing[tableServer{name, s.Number}]
			if s.db.Tables[name] != nil && !table.Policy.copies() && !held {
				n := c.Count(s.db, " FROM ", newSelection(c.ws, i).table(name))
				if one = (GivenUp{Skipped: n}); table.Policy == Rebuild {
					one = GivenUp{Rebuilt: n}
				}
			}
			if all.add(one); one.rows() > 0 {
				servers = append(servers, fmt.Sprintf("%s %d", s.Name, one.rows()))
			}
		}
		if planned.Quarantined > 0 && table.BadRows == "quarantine" {
			all.Quarantined = planned.Quarantined // only the run knows which rows the target refuses
		}
		if all.rows() > 0 {
			c.report.GivesUp[name] = all
		}
		c.report.problemIf(all != planned, unbalanced(name, all, planned, servers))
	}
}

// held reports whether the target has the very rows that each server has in a table, as what the migrations
// of a game fill. Then a merge that skips the table loses none of them.
func (c *checker) held(name string) bool {
	seed, target := maphash.MakeSeed(), c.ws.target
	content := func(d *sqldb.DB, columns []string) (rows, sum uint64) {
		read := func(column string) string { return d.Tables[name].Column(column).ReadExpression(d.Kind) }
		list := strings.Join(sqldb.Mapped(columns, read), ", ")
		q := d.SQL("SELECT ", list, " FROM ", d.Kind.Quote(name), " AS s")
		c.EachSteady(d, q, func(values []any) bool {
			rows, sum = rows+1, sum+maphash.String(seed, sqldb.KeyText(values))
			return true
		})
		return rows, sum
	}
	for _, s := range c.ws.servers {
		own, into := s.db.Tables[name], target.Tables[name]
		if own == nil {
			continue
		}
		columns := sqldb.ColumnNames(own.Writable())
		lacks := func(column string) bool { return into.Column(column) == nil || into.Column(column).Generated }
		if into == nil || holdsLeases(into) || s.db.Kind != target.Kind || slices.ContainsFunc(columns, lacks) {
			return false // The run itself changes leases.
		}
		quoted := s.db.Kind.Quote(name)
		if c.Count(s.db, " FROM ", quoted) != c.Count(target, " FROM ", quoted) {
			return false // nobody has to read them
		}
		rows, sum := content(s.db, columns)
		if there, same := content(target, columns); there != rows || same != sum {
			return false
		}
	}
	return true
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
