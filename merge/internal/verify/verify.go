package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
)

// Run compares the target with the sources. The error is about the comparison itself.
//
// What fails ends all of it: the context of all statements ends with the first error, so those after it
// return nothing, and what they would have found does not count.
func Run(ctx context.Context, p *Plan) (findings []Finding, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	v := &verifier{plan: p, jobs: map[string]*job{}, subject: "the catalogs"}
	v.fail = func(err error) { cancel(fmt.Errorf("%s: %w", v.subject, err)) }
	defer func() {
		if err = errors.Join(context.Cause(ctx), v.close()); err != nil {
			findings = nil
		}
		cancel(nil)
	}()
	var opened sync.WaitGroup
	opened.Go(func() { v.target = open(ctx, p.Target, v.fail) })
	v.sources = make([]*database, len(p.Servers))
	for i, s := range p.Servers {
		opened.Go(func() { v.sources[i] = open(ctx, s, v.fail) })
	}
	opened.Wait()
	if ctx.Err() == nil {
		v.unchanged(ctx)
		v.relate()
	}
	if ctx.Err() == nil {
		v.all(ctx)
	}
	return v.findings, nil
}

// all makes all comparisons but those of the catalogs.
func (v *verifier) all(ctx context.Context) {
	order := v.order()
	for _, prepare := range []func(context.Context, *job){readRefused, findOffsets, readNames, findFar} {
		for _, j := range order {
			v.subject = "table " + j.name
			prepare(ctx, j)
		}
	}
	// Where rows became one, references follow, so these tables come first.
	for _, joined := range []bool{true, false} {
		for _, j := range order {
			if j.plan.joins() != joined {
				continue
			}
			v.subject = "table " + j.name
			for _, check := range []func(context.Context, *job){
				compare, duplicates, keepers, counters, leftBehind,
			} {
				check(ctx, j)
			}
		}
	}
	v.subject = "the lists of the merge"
	for _, check := range []func(context.Context, *job){listedOffsets, listedCopies} {
		for _, j := range order {
			check(ctx, j)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.plan.Tables)) {
		v.subject = "table " + name
		v.empty(ctx, name)
		v.balanced(ctx, name)
	}
	v.subject = listOfServers
	listedServers(ctx, v)
	v.subject = "columns that held keys"
	watch(ctx, v)
	for _, s := range v.plan.Sums {
		v.subject = "conserve " + s.Name
		v.sum(ctx, s)
	}
}

func compare(ctx context.Context, j *job) {
	if j.plan.joins() {
		compareJoined(ctx, j)
	} else {
		compareRows(ctx, j)
	}
}

// empty checks that a table which the game computes anew has no rows.
func (v *verifier) empty(ctx context.Context, name string) {
	if v.plan.Tables[name].Policy == policyRebuild && v.target.tables[name] != nil {
		v.noRows(ctx, "empty", name, "rows of a table that is computed anew", v.target.kind.quote(name))
	}
}

// duplicates counts the groups of rows of the target that are equal in a key. A database prevents them, but
// its checks of unique indexes can be switched off. Those of a primary key cannot, except on TiDB, into which
// whole files can be imported. Names are to differ also where no index keeps them apart.
func duplicates(ctx context.Context, j *job) {
	t := j.v.target
	count := func(detail string, by []string, conditions ...string) {
		j.v.noRows(ctx, "duplicates", j.name, detail, "(SELECT COUNT(*) AS n FROM "+t.kind.quote(j.name)+
			" AS s WHERE "+strings.Join(conditions, " AND ")+" GROUP BY "+strings.Join(by, ", ")+
			" HAVING COUNT(*) > 1) AS x")
	}
	keys := append(slices.Clone(j.target.unique), uniqueKey{name: "the key of the plan", columns: j.plan.Key})
	if t.tidb {
		keys = append(keys, uniqueKey{name: "the primary key", columns: j.target.primary})
	}
	for _, key := range keys {
		var by, held []string
		for i, name := range key.columns {
			by = append(by, key.term(t.kind, i, ""))
			held = append(held, t.kind.quote(name)+" IS NOT NULL")
		}
		if len(by) > 0 {
			count(key.name, by, held...)
		}
	}
	r := j.plan.Rename
	if r == nil || !j.unguarded(r.Column) {
		return
	}
	// The condition is one over rows of the sources. For those of the target it means the same if they are of
	// one kind and the plan sets nothing that it names.
	other := func(d *database) bool { return d.kind != t.kind }
	named := func(column string) bool { return strings.Contains(r.When, column) }
	if r.When != "" && (slices.ContainsFunc(j.v.sources, other) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(j.plan.Set)), named)) {
		return
	}
	name := t.kind.quote(r.Column)
	count("names that several rows have", []string{name}, name+" IS NOT NULL",
		"("+cmp.Or(r.When, "1 = 1")+")")
}

// counters checks that sequences count on behind the greatest key, whether they belong to a column or only
// give it its default. Where there is none, the database looks at the keys itself. Numbers that a session of
// MariaDB keeps for itself count as given out.
func counters(ctx context.Context, j *job) {
	const good = "behind the greatest key"
	t := j.v.target
	for _, c := range j.target.columns {
		if c.class != classNumber || t.kind == sqlite || t.tidb {
			continue
		}
		from := t.sequence(ctx, j.name, c.name)
		if from == "" {
			continue
		}
		increment, shown, end := "increment", "next_not_cached_value", "maximum_value + 1"
		next := shown
		if t.kind == postgres {
			increment, shown, end = "seqincrement", "last_value", "seqmax"
			next = "last_value + CASE WHEN NOT is_called THEN 0 WHEN seqincrement > 0 THEN 1 ELSE -1 END"
			from += ", pg_sequence WHERE seqrelid = '" + strings.ReplaceAll(from, "'", "''") + "'::regclass"
		}
		values := t.kind.quote(c.name) + ") FROM " + t.kind.quote(j.name)
		stands := t.text(ctx, "SELECT CASE WHEN "+increment+" > 0 AND "+next+" > COALESCE((SELECT MAX("+
			values+"), 0) OR "+increment+" < 0 AND "+next+" < COALESCE((SELECT MIN("+values+"), "+end+
			") THEN '"+good+"' ELSE CONCAT('at ', "+shown+") END FROM "+from)
		j.v.compare("counter", j.name, "", c.name, good, stands)
	}
}

// sum compares a sum over all sources with that of the target.
func (v *verifier) sum(ctx context.Context, s Sum) {
	want := new(big.Rat)
	for _, from := range v.jobs[s.Table].sides {
		want.Add(want, from.d.total(ctx, s, from.kept()))
	}
	v.compare("sum", s.Table, "", s.Name, ratText(want), ratText(v.target.total(ctx, s, "")))
}

func ratText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(6), "0")
}

// balanced checks that the target lacks those rows of a table which the plan gives up, and no other row.
func (v *verifier) balanced(ctx context.Context, name string) {
	p, j := v.plan.Tables[name], v.jobs[name]
	var missing GivenUp
	held := p.Policy == policySkip && p.GivesUp == missing && v.held(ctx, name)
	for i, d := range v.sources {
		if d.tables[name] == nil {
			continue
		}
		if j != nil && p.Where == "" && p.Orphans != "drop" {
			break // the rows that were read are all that there are
		}
		rows := "SELECT COUNT(*) FROM " + d.kind.quote(name) + " AS s"
		all := d.number(ctx, rows)
		met := all
		if j != nil && p.Where != "" {
			met = d.number(ctx, rows+where("("+p.Where+")"))
		}
		switch {
		case p.Policy == policyRebuild:
			missing.Rebuilt += all
		case held:
		case j == nil:
			missing.Skipped += all
		default:
			missing.Filtered += all - met
			missing.Orphans += met - j.side(i).read
		}
	}
	if j != nil {
		missing.Quarantined = int64(j.refused.len())
		missing.Filtered += j.left - missing.Quarantined
		missing.Differing, missing.Collapsed = j.differing, j.taken()-j.left-j.present
	}
	v.compare("balance", name, "", "rows that are given up", p.GivesUp.String(), missing.String())
}

// held reports whether the target has the rows of a table that each server has, and no others.
func (v *verifier) held(ctx context.Context, name string) bool {
	for _, d := range v.sources {
		own, into := d.tables[name], v.target.tables[name]
		if own == nil {
			continue
		}
		if into == nil || d.kind != v.target.kind {
			return false
		}
		var here, there []string
		for i := range own.columns {
			c := &own.columns[i]
			if c.computed {
				continue
			}
			same := into.column(c.name)
			if same == nil {
				return false
			}
			here, there = append(here, d.expression("c", c)), append(there, v.target.expression("c", same))
		}
		if d.content(ctx, name, here) != v.target.content(ctx, name, there) {
			return false
		}
	}
	return true
}

// content sums up what the rows of a table have in some columns.
func (d *database) content(ctx context.Context, table string, columns []string) (all digest) {
	var b []byte
	text := "SELECT " + strings.Join(columns, ", ") + " FROM " + d.kind.quote(table) + " AS c"
	d.steadily(ctx, text, func(values []any) {
		b = b[:0]
		for _, value := range values {
			b = form{class: classText}.append(b, value)
		}
		all.add(sumOf(b))
	})
	return all
}

// unchanged compares what the target has besides rows with what it had before the merge. Only counters may
// have moved, and only forward.
func (v *verifier) unchanged(ctx context.Context) {
	if v.target.tables[tableOfCatalog] == nil {
		v.compare("catalog", tableOfCatalog, "", "what the target had before the merge", "stored", "lost")
		return
	}
	before, after := map[Thing]string{}, map[Thing]string{}
	for _, row := range v.target.texts(ctx, "SELECT kind, tbl, name, definition FROM "+tableOfCatalog) {
		if kind, copied := strings.CutPrefix(row[0], AfterCopying); copied {
			after[Thing{kind, row[1], row[2]}] = row[3]
		} else {
			before[Thing{kind, row[1], row[2]}] = row[3]
		}
	}
	maps.Copy(before, after) // a counter that the merge has moved must not go back behind its new place
	now := v.target.things(ctx)
	maps.DeleteFunc(now, func(t Thing, _ string) bool { return slices.Contains(v.plan.Own, t.Table) })
	found := len(v.findings)
	for _, t := range sorted(before, now) {
		was, had := before[t]
		is, has := now[t]
		switch {
		case was == is && had == has:
		case t.Kind == KindCounter && reached(was, is):
		case !had:
			v.compare("catalog", t.Table, "", t.String(), "none", "added: "+is)
		case !has:
			v.compare("catalog", t.Table, "", t.String(), was, "lost")
		default:
			v.differ(t, was, is)
		}
	}
	if len(v.findings) == found {
		n := fmt.Sprintf("%d things", len(before))
		v.compare("catalog", "", "", "what the target has besides rows, as before the merge", n, n)
	}
}

// differ notes how a thing differs. Of the statement that makes a table it notes only the parts that do.
func (v *verifier) differ(t Thing, was, is string) {
	if strings.HasPrefix(strings.ToUpper(was), "CREATE TABLE") {
		lost, added := []string(nil), parts(is)
		for _, part := range parts(was) {
			if pos := slices.Index(added, part); pos >= 0 {
				added = slices.Delete(added, pos, pos+1)
			} else {
				lost = append(lost, part)
			}
		}
		switch {
		case len(lost)+len(added) > 0:
			was, is = cmp.Or(strings.Join(lost, ", "), "none"), cmp.Or(strings.Join(added, ", "), "lost")
		case strings.Contains(was, "\n"):
			return // an index that was made again stands behind the others
		}
	}
	v.compare("catalog", t.Table, "", t.String(), was, is)
}
