package merge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// dataCheck looks at the rows of the sources.
type dataCheck struct {
	*checking
	fingerprints map[tableServer]string // as they were when the check began
	total        int64                  // how many rows will be copied
}

// emptyTarget checks that the tables of the target are empty. Only then is dropping the target a way to
// undo a merge.
func (c *dataCheck) emptyTarget() {
	for name, p := range sorted(c.ws.plan.Tables) {
		filled := p.Policy != Skip && c.ws.target.Tables[name] != nil &&
			c.Any(c.ws.target, " FROM ", c.ws.target.Kind.Quote(name))
		c.report.problemIf(filled, Problem{Code: CodeNotEmpty, Server: c.ws.target.Name, Table: name,
			Message: "the table already holds rows",
			Remedy:  "merge into a fresh database; a table that the target fills by itself gets the policy skip"})
	}
}

// counts counts the rows that are copied and the rows that are left out.
func (c *dataCheck) counts() {
	if c.ws.survey == nil {
		c.fingerprints = c.marks()
	} else { // which has them from all tables
		c.fingerprints = map[tableServer]string{}
		for j, src := range c.ws.sources() {
			c.fingerprints[src.share()] = c.ws.survey.Tables[j.name].Rows[src.owner.Name]
		}
	}
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		all, err := rowsIn(c.fingerprints[src.share()])
		c.Fail(err)
		kept := all
		if src.sel.kept(j, "s") != "" {
			kept = c.Count(s.db, src.sel.rows(src))
		}
		t := c.report.table(j.name)
		t.Rows[s.Name] = kept
		if all > kept {
			t.Left[s.Name] = all - kept
			met := kept // the condition of the plan
			switch {
			case j.plan.Where == "":
				met = all
			case j.plan.Orphans == "drop":
				met = c.Count(s.db, " FROM ", src.sel.table(j.name), " AS s WHERE (", j.plan.Where, ")")
			}
			c.missing.add(src.share(), GivenUp{Orphans: met - kept, Filtered: all - met})
		}
		c.total += kept
	})
}

// marks returns the fingerprints of the tables that are copied.
func (c *dataCheck) marks() map[tableServer]string {
	all, err := fingerprints(c.Ctx, c.ws, c.ws.copied)
	c.Fail(err)
	return all
}

// beginsWithZero reports whether a text is a number that has zeros in front. The number 0 itself means none.
func beginsWithZero(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 1 && text[0] == '0' && strings.Trim(text, "0123456789") == ""
}

// quiet takes the fingerprints again after all other checks, which shows whether a source is still written
// to.
func (c *dataCheck) quiet() {
	now := c.marks()
	for j, src := range c.ws.sources() {
		before, after := c.fingerprints[src.share()], now[src.share()]
		c.report.problemIf(before != after, Problem{Code: CodeNotQuiet, Server: src.owner.Name, Table: j.name,
			Message: "it had " + before + " and now has " + after, Remedy: "stop the game server first"})
	}
}

// orphans counts the rows that refer to a row that does not exist or is not copied.
func (c *dataCheck) orphans() {
	for _, j := range c.ws.order {
		for _, ref := range j.refs {
			c.unmet(j, ref)
		}
	}
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		for _, ref := range j.refs {
			c.orphansOf(j, src, s, ref)
		}
		c.padded(j, src, s)
		c.copiedNames(src, s)
		c.besideWhen(j, s)
		c.nullKeys(j, src, s)
	})
}

// unmet warns of a condition that no row of any server meets, though some have a value: its texts may be
// written for another database.
func (c *dataCheck) unmet(j *tableJob, ref sqldb.Reference) {
	filled := false
	for _, src := range j.present() {
		met := src.sel.refers(j, ref, "s")
		rows := func(condition string) bool {
			return c.Any(src.owner.db, " FROM ", src.sel.table(j.name), " AS s WHERE ", condition)
		}
		if ref.When == "" || met == "" || rows(met) {
			return
		}
		col := src.table.Column(ref.Columns[0]) // the server may lack what the plan sets
		filled = filled || col != nil && rows(filledIn(src.owner.db.Kind, col))
	}
	if filled {
		c.report.warn(Problem{Code: CodePlan, Table: j.name, Column: strings.Join(ref.Columns, ", "),
			Message: "no row of any server meets " + ref.When + ", which selects those that refer to " + ref.Parent,
			Remedy:  "see whether it is meant so: MySQL and MariaDB want each backslash in a text twice"})
	}
}

// filledIn returns the condition that a row may have a key in a column.
func filledIn(k sqldb.Kind, c *sqldb.Column) string {
	if c.Family.Exact() {
		return k.Quote(c.Name) + " <> 0"
	}
	return k.Quote(c.Name) + " IS NOT NULL"
}

// copiedNames refuses copies of names most of which are not those of the rows that their references lead to:
// they would keep the old names.
func (c *dataCheck) copiedNames(src *sourceTable, s *server) {
	for _, n := range src.repeats {
		name := c.ws.jobs[n.parent].plan.Rename.Column
		if n.alone() {
			c.standing(src, s, n)
		}
		if n.alone() || slices.Contains(n.ref.Target, name) {
			continue // a foreign key to the name cannot be wrong
		}
		ref := n.ref.Columns[0]
		found, err := namesBeside(c.Ctx, c.ws, src.server, place{src.table.Name, n.column}, ref,
			place{n.parent, name})
		if c.Fail(err); err != nil {
			return
		}
		p := Problem{Code: CodeNameCopy, Server: s.Name, Table: src.job.name, Column: n.column}
		if found.left > 0 {
			p.Message = fmt.Sprintf("%d texts are names of rows of %s where %s leads to none, so they would not "+
				"follow a new name", found.left, n.parent, ref)
			p.Remedy = "remove ref: from the entry under copies: of the rename of " + n.parent + ", and each " +
				"text that is a name on its server follows; or let these keep the old names"
			c.report.warn(p)
		}
		if !found.others && (found.hits > 0 || found.all == 0) {
			continue
		}
		report := c.report.problem
		if !found.others {
			report = c.report.warn // a few may be the names that the rows had before
		}
		p.Message = fmt.Sprintf("of %d texts %d are names of the rows of %s that %s leads to, and only these "+
			"would follow a new name", found.all, found.hits, n.parent, ref)
		p.Remedy = "name the column that leads to the rows of these names as ref: under copies: of the rename " +
			"of " + n.parent + "; or remove ref:, and each text that is a name on its server follows; or " +
			"remove the entry, and such texts stay as they are"
		report(p)
	}
}

// besideNames says how texts that may be names stand beside a column that leads to the rows of these names.
type besideNames struct {
	others    bool  // most are not the names of the rows that it leads to
	hits, all int   // how many of some are
	left      int64 // how many are names where it leads to no row
}

// fewOthers is how many names of others are no chance.
const fewOthers = 5

// namesBeside looks at the texts of a column, and at the rows that the column ref leads to.
func namesBeside(ctx context.Context, ws *workspace, server int, text place, ref string, name place) (
	found besideNames, err error) {
	const sampled = "500"
	db, id := ws.servers[server].db, rowBy(ws.target.Tables[name.table])
	if id == nil {
		return found, nil
	}
	table, parent := db.Tables[text.table], db.Tables[name.table]
	by, key := table.Column(ref), parent.Column(id.Name)
	copied, own := table.Column(text.column), parent.Column(name.column)
	if by == nil || key == nil || by.Family != key.Family || own == nil || copied == nil {
		return found, nil
	}
	k, sel := db.Kind, newSelection(ws, server)
	column, named, led := "s."+k.Quote(copied.Name), "p."+k.Quote(own.Name), "p."+k.Quote(key.Name)
	join := "JOIN " + sel.table(parent.Name) + " AS p ON " + led + " = s." + k.Quote(ref)
	q := db.SQL("SELECT ", column, ", ", named, " FROM ", sel.table(table.Name), " AS s ", join,
		" WHERE ", column, " <> '' LIMIT ", sampled)
	err = db.Each(ctx, q, func(values []any) error {
		if found.all++; sameName(sqldb.Text(values[0]), sqldb.Text(values[1])) {
			found.hits++
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	found.others = found.all-found.hits >= fewOthers && found.hits*2 < found.all
	names := db.SQL("SELECT COUNT(*) FROM ", sel.table(table.Name), " AS s LEFT ", join, " WHERE ", led,
		" IS NULL AND ", column, " <> '' AND ", copied.Exactly(k, column), " IN (SELECT ", own.Exactly(k, named),
		" FROM ", sel.table(parent.Name), " AS p WHERE ", named, " <> '')")
	asker := sqldb.NewAsker(ctx)
	found.left = asker.Number(db, names)
	return found, asker.Err
}

// standing looks at names that stand alone. It refuses those of several rows of a server, and warns of texts
// that are names but for case and blanks, because only exact names follow.
func (c *dataCheck) standing(src *sourceTable, s *server, n sourceName) {
	parent, k, sel := c.ws.jobs[n.parent], s.db.Kind, src.sel
	own, copied := s.db.Tables[n.parent].Column(parent.plan.Rename.Column), src.table.Column(n.column)
	if own == nil || copied == nil {
		return
	}
	name, text := "pn."+k.Quote(own.Name), "s."+k.Quote(copied.Name)
	exact := func(column *sqldb.Column, form, value string) string {
		return column.Exactly(k, fmt.Sprintf(form, value))
	}
	names := func(form string) string {
		return "(SELECT " + exact(own, form, name) + " AS x FROM " + sel.table(n.parent) + " AS pn WHERE " +
			name + " IS NOT NULL AND (" + cmp.Or(parent.plan.Rename.When, "1 = 1") + "))"
	}
	const same, alike = "%s", "LOWER(TRIM(%s))"
	rows := " FROM " + sel.table(src.table.Name) + " AS s"
	found := Problem{Code: CodeNameCopy, Server: s.Name, Table: src.job.name, Column: n.column,
		Message: "several rows of " + n.parent + " have a name that stands here, so it does not say whose it is",
		Remedy: "name the column that leads to the row as ref: under copies: of the rename of " + n.parent +
			"; or give one of the rows another name on its server; or remove the entry"}
	c.found(c.Count(s.db, " FROM (SELECT x FROM ", names(same), " AS found GROUP BY x ",
		"HAVING COUNT(*) > 1) AS several WHERE x IN (SELECT ", exact(copied, same, text), rows, ")"), found)
	warn := func(count int64, message, remedy string) {
		if found.Count = count; count > 0 {
			found.Message, found.Remedy = message, remedy
			c.report.warn(found)
		}
	}
	warn(c.Count(s.db, rows, " WHERE ", exact(copied, alike, text), " IN ", names(alike), " AND ",
		exact(copied, same, text), " NOT IN ", names(same)),
		"texts are names of "+n.parent+" but for case and blanks, and only exact names follow",
		"write these texts on the server as the names are written, if they are meant to be these")
	others, longer := c.ofOthers(s, place{n.parent, own.Name}, s.db.SQL("SELECT ",
		copied.ReadExpression(k), ", COUNT(*)", rows, " WHERE ", exact(copied, alike, text), " NOT IN ",
		names(alike), " GROUP BY ", text, " LIMIT 10000"))
	warn(longer, "texts begin with names of "+n.parent+" and go on, and only whole names follow",
		"correct these texts on the server, or accept that they keep the old names")
	warn(others, "texts are names of "+n.parent+" on other servers only, and lead to their rows after the "+
		"merge", "if the rows of these names were deleted here, change or delete these texts on the server; or "+
		"declare the column under references:, and check says what to do with those that lead nowhere")
}

// ofOthers counts the rows with texts that are names on another server, and those with longer texts that
// begin with a name of their own server. The query returns a few thousand texts at most, and how many rows
// have each.
func (c *dataCheck) ofOthers(s *server, name place, query *sqldb.Statement) (others, longer int64) {
	rows, begun := map[string]int64{}, map[string]int64{}
	c.Each(s.db, query, func(values []any) bool {
		counts, err := numbers(values[1])
		if c.Fail(err); err == nil {
			text := sqldb.Text(values[0])
			rows[text] = counts[0]
			if end := strings.IndexAny(text, " [(<:,;|/"); end > 0 {
				begun[text[:end]] += counts[0]
			}
		}
		return true
	})
	for i, o := range c.ws.servers {
		asked, n := rows, &others
		if o == s {
			asked, n = begun, &longer
		}
		if c.Err != nil || o.db.Tables[name.table].Column(name.column) == nil {
			continue
		}
		found, err := newDrafter(c.ws).amongNames(c.Ctx, i, slices.Collect(maps.Keys(asked)), name)
		c.Fail(err)
		for text := range found {
			*n += asked[text]
			delete(asked, text)
		}
	}
	return others, longer
}

// padded refuses keys in texts that begin with zeros, or that have blanks around them, where they change: a
// new key is written without, and a database may or may not take such a text for a number.
func (c *dataCheck) padded(j *tableJob, src *sourceTable, s *server) {
	for _, l := range j.follows.links {
		own := src.table.Column(l.column)
		index := slices.IndexFunc(src.pairs, func(p pair) bool { return p.source.Name == l.column })
		if own == nil || own.Family != sqldb.FamilyText || l.path != "" || j.plan.Set[l.column] != "" ||
			c.ws.jobs[l.parent].plan.Renumber == "" || index < 0 {
			continue
		}
		n, column, varies := int64(0), src.sel.by(own), strings.HasPrefix(own.Declared, "character varying")
		fixed := strings.HasPrefix(own.Declared, "char") && !varies // and filled up with blanks
		blanks := l.list == "" && l.when == ""
		// As it is copied: without rows that are left out, and references that lead nowhere.
		q := s.db.SQL("SELECT ", src.sel.expressions(src, false)[index], src.sel.rows(src, fmt.Sprintf(
			"(%[1]s LIKE '%%0%%' OR %[1]s LIKE ' %%' OR %[1]s LIKE '%% ')", column)))
		c.Each(s.db, q, func(values []any) bool {
			keys := []string{sqldb.Text(values[0])}
			switch {
			case l.list != "":
				keys = strings.Split(keys[0], l.list)
			case fixed:
				keys[0] = strings.TrimRight(keys[0], " ")
			}
			key := strings.TrimSpace(keys[0])
			blank := blanks && key != keys[0] && key != "" && strings.Trim(key, "0123456789") == ""
			if blank || slices.ContainsFunc(keys, beginsWithZero) {
				n++
			}
			return true
		})
		c.found(n, Problem{Code: CodeChanged, Server: s.Name, Table: j.name, Column: l.column,
			Message: "keys of " + l.parent + " begin with zeros or stand among blanks in this text, and new ones " +
				"would be written without",
			Remedy: "remove the zeros and blanks on the server, or give the column a value by set:"})
	}
}

// nullKeys refuses rows with NULL in a column by which rows become one. To a database they are equal to no
// other row, and a game may mean one row of the whole server by it, such as the account of a club that has no
// owner.
func (c *dataCheck) nullKeys(j *tableJob, src *sourceTable, s *server) {
	for _, name := range j.plan.Key {
		value, own, _ := src.sel.given(j, name, "s")
		if own == nil || !own.Nullable {
			continue
		}
		c.found(c.Count(s.db, src.sel.rows(src, value+" IS NULL")), Problem{Code: CodeNull, Server: s.Name,
			Table: j.name, Column: name,
			Message: "NULL in a column of the key by which rows become one, so they would be equal to no other row",
			Remedy: "give the column a value by set:, such as COALESCE(" + name + ", a value that no row has); " +
				"or name other columns under key:; or leave such rows out by where:"})
	}
}

func (c *dataCheck) orphansOf(j *tableJob, src *sourceTable, s *server, ref sqldb.Reference) {
	sel := src.sel
	missing := sel.orphan(j, ref, "s")
	if missing == "" {
		return
	}
	count := func(condition string) int64 {
		return c.Count(s.db, " FROM ", sel.table(j.name), " AS s WHERE (", cmp.Or(j.plan.Where, "1 = 1"),
			") AND ", condition)
	}
	p := Problem{Code: CodeOrphan, Server: s.Name, Table: j.name, Column: strings.Join(ref.Columns, ", "),
		Message: "the reference leads to a row of " + ref.Parent + " that does not exist or is not copied"}
	n := int64(0)
	if !c.ws.elsewhere.known[leadingOf(j, ref, src.server)].none { // which has looked already
		n = count(missing)
	}
	if c.ws.policy(ref.Parent) == Skip {
		p.Message = "the reference leads to a row of " + ref.Parent + ", which the plan skips, that the target " +
			"does not have"
	}
	report := c.report.problem
	switch {
	case c.leadsNowhere(j, src, ref, n, count):
		p.Message = "not one value is a key of " + ref.Parent + " on this server, so the reference looks wrong"
		p.Remedy = "correct it under references: of the table; or, if these rows are really not wanted, leave " +
			"them out by where: of the table"
	case j.plan.Orphans == "drop":
		p.Remedy, report = "not copied, because of orphans: drop", c.report.warn
	case j.plan.Orphans == "null" && j.nullable(ref) != "":
		p.Remedy, report = "copied without the reference, because of orphans: null", c.report.warn
	case j.plan.Orphans == "null":
		p.Remedy = "the reference cannot be NULL in the target: " + c.orphanAnswers(j, ref)
	default:
		p.Remedy = c.orphanAnswers(j, ref)
	}
	if p.Count = n; n > 0 {
		report(p)
	}
	if j.plan.Orphans != "drop" || !slices.ContainsFunc(j.circular,
		func(r sqldb.Reference) bool { return r.Parent == ref.Parent }) {
		return
	}
	// In a circle, a dropped row may be the parent of another row, and so on. Only one step of that is
	// followed.
	kept, keptParent := sel.kept(j, "s"), sel.kept(c.ws.jobs[ref.Parent], "q")
	if keptParent == "" {
		return
	}
	p.Message = "the reference leads to a row of " + ref.Parent +
		" that is dropped as an orphan itself, in a circle"
	p.Remedy = "set orphans: null on the table"
	c.found(count(kept+" AND "+c.ws.elsewhere.unless(sel, j, ref, "s", sel.refers(j, ref, "s")+" AND "+
		sel.without(j, ref, "s", "q", keptParent))), p)
}

// leadsNowhere reports whether no row of a server leads anywhere by a reference that only the plan declares,
// though the plan drops or empties what leads nowhere. n is how many rows lead to nothing that is copied. A
// single row says nothing.
func (c *dataCheck) leadsNowhere(j *tableJob, src *sourceTable, ref sqldb.Reference, n int64,
	count func(condition string) int64) bool {
	parent := c.ws.jobs[ref.Parent]
	refuses := j.plan.Orphans != "drop" && j.plan.Orphans != "null"
	if n < 2 || refuses || ref.Enforced || parent == nil || parent.sources[src.server] == nil {
		return false
	}
	refers := src.sel.refers(j, ref, "s")
	all := count(refers)
	return all <= n && all == count(c.ws.elsewhere.unless(src.sel, j, ref, "s", refers+" AND "+
		src.sel.without(j, ref, "s", "q", "1 = 1")))
}

// besideWhen looks at the rows of a column that no reference of it applies to, where each has a condition.
// They may refer to the same table, or to another one whose keys change.
func (c *dataCheck) besideWhen(j *tableJob, s *server) {
	for name, when := range sorted(j.whens()) {
		if slices.Contains(c.ws.plan.Plain, j.name+"."+name) {
			continue
		}
		var own, keys []census.Column // own are the keys to which the references of the column lead
		for _, parent := range c.ws.order {
			if !parent.changes() {
				continue
			}
			key := census.Column{Table: parent.name, Name: parent.key().Name}
			if slices.ContainsFunc(j.refs, func(ref sqldb.Reference) bool {
				return ref.Parent == parent.name && slices.Contains(ref.Columns, name)
			}) {
				own = append(own, key)
			} else {
				keys = append(keys, key)
			}
		}
		keys = append(own, keys...) // Rows beside a condition most likely refer to what the others refer to.
		found, err := census.Outside(c.Ctx, s.db, census.Column{Table: j.name, Name: name}, keys, when)
		c.Fail(err)
		problem := Problem{Code: CodeUndeclared, Server: s.Name, Table: j.name, Column: name}
		var perhaps []string
		for _, b := range found {
			switch {
			case b.Proof == "" && b.Hits*10 >= b.Values*9:
				perhaps = append(perhaps, b.Key.Table)
			case b.Proof != "":
				problem.Message = "rows that do not meet when: of a reference refer to " + b.Key.Table +
					" by what is in them (" + b.Proof + ")"
			}
		}
		switch {
		case problem.Message != "":
			problem.Remedy = fmt.Sprintf("let when: apply to these rows too, or declare what they refer to by a "+
				"reference of its own; if they refer to nothing that is merged, list %q under plain: of the plan",
				j.name+"."+name)
			c.report.problem(problem)
		case len(perhaps) > 0 && !c.ws.saysNowhere(j, name):
			problem.Count = found[0].Values // of all these rows
			problem.Message = "values in rows that meet no when: of its references may be keys of " +
				strings.Join(perhaps[:min(3, len(perhaps))], ", ") + ", which change; such rows would lead to nobody"
			problem.Remedy = fmt.Sprintf("declare what they refer to by a reference with a when: of its own; if "+
				"they refer to nothing that is merged, list %q under plain: of the plan", j.name+"."+name)
			c.report.warn(problem)
		}
	}
}

// orphanAnswers says what can be done about orphans. What keeps rows and references comes first.
func (c *dataCheck) orphanAnswers(j *tableJob, ref sqldb.Reference) string {
	var answers []string
	none := c.ws.written(ref.Columns[0]) + " <> 0"
	if !ref.Enforced && len(ref.Columns) == 1 && j.target.Column(ref.Columns[0]).Family.Exact() &&
		!strings.Contains(ref.When, none) {
		answers = append(answers, "if a value such as 0 means that there is none, say so by when: "+none+
			" of the reference")
	}
	if parent := c.ws.plan.Tables[ref.Parent]; parent != nil && parent.Set[ref.Target[0]] != "" &&
		j.plan.Set[ref.Columns[0]] == "" {
		answers = append(answers, fmt.Sprintf("give it by set: of %s the value that set: gives %s.%s",
			j.name, ref.Parent, ref.Target[0]))
	}
	if c.ws.policy(ref.Parent) == Skip {
		answers = append(answers, "put those rows into the target, as the migrations of the game do")
	}
	answers = append(answers, "correct the rows on their server")
	if ref.Enforced {
		answers = append(answers, "if they refer to another table, drop the constraint in the target and on "+
			"copies of the servers, and declare what they refer to")
	}
	if there := c.ws.leadsThere(ref); there != "" && !strings.Contains(ref.When, there) {
		if ref.When != "" {
			there = "(" + ref.When + ") AND " + there
		}
		answers = append(answers, "say that the others lead nowhere, as they go on to do, by when: "+there+
			" of the reference")
	}
	if j.nullable(ref) != "" {
		answers = append(answers, "set orphans: null on the table, and they are copied without the reference")
	}
	return strings.Join(append(answers, "set orphans: drop on the table, and they are not copied"), "; or ")
}

// estimate reads a sample and derives how long a run may take. Writing takes about three times as long as
// reading.
func (c *dataCheck) estimate() {
	var largest *sourceTable
	maxRows := int64(0)
	for j, src := range c.ws.sources() {
		if n := c.report.table(j.name).Rows[src.owner.Name]; n > maxRows {
			maxRows, largest = n, src
		}
	}
	if largest == nil {
		return
	}
	began := time.Now()
	input := &reader{src: largest, size: 1000, refused: func(string, pair, error) {}}
	sample, err := input.page(c.Ctx)
	if c.Fail(err); sample.read > 0 {
		c.report.Estimate = time.Since(began) * 4 / time.Duration(sample.read) * time.Duration(c.total)
	}
}

// idCheck finds out which server made the IDs in a column.
type idCheck struct {
	*checking
	origins map[ofColumn]origin
}

// ofColumn is a column of a table of a server.
type ofColumn struct {
	tableServer
	column string
}

// origin counts the IDs in a column that the server of the row has not made.
type origin struct {
	plain  int64 // they have no time: a database counted them
	others map[int64]int64
}

// check decodes the server numbers in the primary keys. Keys that different servers made cannot be equal,
// so most tables need no further comparison. One server after the other is asked: a database that only looks
// for what others have made answers four times as fast as one that counts all.
func (c *idCheck) check() {
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		if len(src.key) != 1 || src.pairs[src.key[0]].target.Family != sqldb.FamilyInt {
			return
		}
		column := src.pairs[src.key[0]].target.Name
		o := c.origin(src, column)
		follows := func(l sourceLink) bool {
			return l.column == column && c.ws.jobs[l.parent].plan.Renumber != ""
		}
		if o.plain > 0 && j.plan.Renumber == "" && !slices.ContainsFunc(src.links, follows) {
			c.report.warn(Problem{Code: CodePlainKeys, Server: s.Name, Table: j.name, Column: column,
				Count: o.plain,
				Message: "the key was counted, not made by a generator of the layout, so it is compared with the " +
					"others"})
		}
		for number, n := range o.others {
			p := Problem{Code: CodeServerNumber, Server: s.Name, Table: j.name, Column: column, Count: n,
				Message: fmt.Sprintf("the ID was made with the server number %d", number),
				Remedy: "if number: of the server or layout: is wrong in the plan, correct it; if that server was " +
					"merged into this one, list its number under also:; if rows came from elsewhere, or two servers " +
					"had one number, set foreign_ids: true on the table, and the keys are compared one by one"}
			if j.plan.ForeignIDs {
				p.Remedy = "compared with the others, because of foreign_ids: true"
				c.report.warn(p)
			} else {
				c.report.problem(p)
			}
		}
	})
}

// origin counts the IDs in a column by server. The database leaves out those that the server itself has made,
// which are mostly all: it would take several times as long to group them.
func (c *idCheck) origin(src *sourceTable, column string) origin {
	key := ofColumn{src.share(), column}
	if o, ok := c.origins[key]; ok {
		return o
	}
	db, l := src.owner.db, c.ws.layout
	name := sqldb.Wide(db.Kind, "s."+db.Kind.Quote(column)) // it may be a decimal there
	madeBy := fmt.Sprintf("CASE WHEN %[1]s < %[2]d THEN -1 ELSE ((%[1]s >> %[3]d) & %[4]d) END", name, l.least,
		l.shift, l.mask)
	conditions := []string{name + " IS NOT NULL"}
	for _, number := range src.owner.numbers() {
		conditions = append(conditions, fmt.Sprintf("%s <> %d", madeBy, number))
	}
	q := db.SQL("SELECT ", madeBy, " AS made_by, COUNT(*)", src.sel.rows(src, conditions...), " GROUP BY 1")
	o := origin{others: map[int64]int64{}}
	c.Each(db, q, func(values []any) bool {
		n, err := numbers(values...)
		switch {
		case err != nil:
			c.Fail(err)
		case n[0] < 0:
			o.plain += n[1]
		default:
			o.others[n[0]] += n[1]
		}
		return true
	})
	c.origins[key] = o
	return o
}

// disjoint reports whether no two rows can be equal in a key. That is so if one column of the key holds
// only IDs of its own server, or keys that move, and if every server itself enforces the same key in the same
// way.
func (c *idCheck) disjoint(j *tableJob, k sqldb.UniqueKey) bool {
	joined := func(ref sqldb.Reference) bool { // two references may be changed to one row
		return slices.ContainsFunc(ref.Columns, k.Covers) && c.ws.copied(ref.Parent) &&
			c.report.table(ref.Parent).Dropped > 0
	}
	if !k.Simple() || slices.ContainsFunc(j.refs, joined) {
		return false
	}
	if j.plan.Renumber != "" && len(k.Parts) == 1 && k.Columns()[0] == j.key().Name {
		return !slices.ContainsFunc(j.present(), func(src *sourceTable) bool { return c.keeps(src) })
	}
	other := func(src *sourceTable) bool { return !c.sameKey(src, k) }
	return !slices.ContainsFunc(j.present(), other) && (c.moves(j, k) ||
		slices.ContainsFunc(k.Columns(), func(name string) bool { return c.own(j, name) }))
}

// moves reports whether columns of a key follow renumbered tables, and hold nothing but numbers among the
// keys that these tables have on the server of the row. Such numbers move together, to where no other server
// has any.
func (c *idCheck) moves(j *tableJob, k sqldb.UniqueKey) bool {
	covered := func(l link) bool { return slices.ContainsFunc(l.columns(), k.Covers) }
	given := func(name string) bool { return j.plan.Set[name] != "" }
	named := func(n nameLink) bool { return k.Covers(n.column) }
	if slices.ContainsFunc(j.follows.whole, covered) || slices.ContainsFunc(k.Columns(), given) ||
		slices.ContainsFunc(j.follows.names, named) {
		return false
	}
	links := slices.DeleteFunc(slices.Clone(j.follows.links), func(l link) bool { return !covered(l) })
	for n, l := range links {
		parent := c.ws.jobs[l.parent]
		if l.inside() || l.when != "" || parent.plan.Renumber == "" || parent.plan.Policy.collapses() ||
			n > 0 && links[n-1].column == l.column { // it may follow either
			return false
		}
	}
	return len(links) > 0 && !slices.ContainsFunc(j.present(), func(src *sourceTable) bool {
		var within []string
		for _, l := range links {
			source, span := src.table.Column(l.column), c.ws.offsets.spans[l.parent][src.server]
			if source.Family != sqldb.FamilyInt || span.greatest < 0 { // without a parent there, too
				return true
			}
			within = append(within, fmt.Sprintf("%s BETWEEN %d AND %d", src.sel.by(source), span.least,
				min(span.greatest, c.ws.layout.least-1)))
		}
		return c.Any(src.owner.db, src.sel.rows(src, "CASE WHEN "+strings.Join(within, " AND ")+
			" THEN 0 ELSE 1 END = 1"))
	})
}

// keeps reports whether a row of a renumbered table keeps its key, which another server may have as well.
func (c *idCheck) keeps(src *sourceTable) bool {
	return c.Any(src.owner.db, fmt.Sprintf(" FROM %s WHERE %[2]s IS NULL OR %[2]s < 0 OR %[2]s >= %[3]d",
		src.sel.table(src.table.Name), src.owner.db.Kind.Quote(src.job.key().Name), c.ws.layout.least))
}

// own reports whether a column holds only IDs that the server of the row has made.
func (c *idCheck) own(j *tableJob, column string) bool {
	whole := j.target.Column(column).Family == sqldb.FamilyInt
	return whole && !slices.ContainsFunc(j.present(), func(src *sourceTable) bool {
		source := src.table.Column(column)
		if source == nil || source.Family != sqldb.FamilyInt {
			return true
		}
		o := c.origin(src, column)
		return o.plain > 0 || len(o.others) > 0
	})
}

// sameKey reports whether a source enforces a key itself, with the same comparison of values.
func (c *idCheck) sameKey(src *sourceTable, k sqldb.UniqueKey) bool {
	for _, name := range k.Columns() {
		source, target := src.table.Column(name), src.job.target.Column(name)
		if source == nil {
			return false
		}
		text := target.Family != sqldb.FamilyInt && target.Family != sqldb.FamilyBool &&
			target.Family != sqldb.FamilyUUID
		if text && (src.owner.db.Kind != c.ws.target.Kind ||
			source.Collation != target.Collation ||
			source.Declared != target.Declared) {
			return false
		}
	}
	// Only the indexes of SQLite have their own collations.
	return slices.ContainsFunc(src.table.Keys(), func(own sqldb.UniqueKey) bool {
		if !own.Simple() || !sameNames(own.Columns(), k.Columns()) {
			return false
		}
		return !slices.ContainsFunc(own.Parts, func(p sqldb.KeyPart) bool {
			return !slices.ContainsFunc(k.Parts, func(q sqldb.KeyPart) bool {
				return p.Column == q.Column && (p.Collation == q.Collation || !src.raw)
			})
		})
	})
}

// insideCheck looks at the keys inside of documents and lists, as far as those keys change. One that leads
// nowhere moves with the keys of its server. Among them it leads to no row for ever, because no server counts
// there any more. Beyond them it could lead to the row of another server.
type insideCheck struct {
	*checking
	broken bool // keys inside of a column, or of a column, cannot be changed
}

const remedyOfInside = "correct it on its server, leave such rows out by when: on the reference, or give " +
	"the column a value by set:"

func (c *insideCheck) check() {
	c.do(c.ws.offsets.find)
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		var links []*insideLink
		for _, l := range slices.Concat(src.links, src.adrift) {
			if !l.inside() {
				continue
			}
			links = append(links, &insideLink{sourceLink: l, moved: c.moved(c.ws.jobs[l.parent], src.server)})
		}
		input := &reader{src: src, size: c.ws.chunkRows, refused: func(string, pair, error) {}}
		for page := (chunk{}); len(links) > 0 && !page.ended && c.Err == nil; {
			var err error
			page, err = input.page(c.Ctx)
			c.Fail(err)
			for _, l := range links {
				c.look(l, src, page.rows)
			}
		}
		for _, l := range links {
			c.report.Problems = slices.Concat(c.report.Problems, l.broken, l.lost)
			c.report.Warnings = append(c.report.Warnings, l.gone...)
			c.broken = c.broken || len(l.broken) > 0
		}
	})
}

// moved returns the range in which all numbers move with the keys of a table of a server, and no key of
// another server lies afterwards. There is none if no row keeps its own key of these, because then nothing in
// the target shows by how much they have moved. On a server without the table nothing moves, and new keys
// that lie apart on all servers leave out what stands there.
func (c *insideCheck) moved(j *tableJob, server int) keySpan {
	key, src, span, least := j.key(), j.sources[server], keySpan{0, -1}, c.ws.layout.least
	switch {
	case j.plan.Renumber == "" || j.plan.Policy.collapses() || key.Family != sqldb.FamilyInt:
	case src == nil && j.plan.Renumber == Apart && c.ws.plan.Apart != apartOthers:
		span.greatest = least - 1
	case src != nil && c.Any(src.owner.db, src.sel.rows(src, fmt.Sprintf("s.%s BETWEEN 0 AND %d",
		src.owner.db.Kind.Quote(key.Name), least-1))):
		if span = c.ws.offsets.spans[j.name][server]; j.plan.Renumber == Behind {
			span.least = 1
		}
	}
	return span
}

// insideLink is a reference inside of a column, and what is wrong with its rows.
type insideLink struct {
	sourceLink
	moved        keySpan  // the keys of the server that move together, also those of rows that are gone
	broken, lost findings // rows that cannot be read, and those with a key that leads nowhere
	gone         findings // rows with a key that leads nowhere, and goes on to do so
}

// look counts the rows of a chunk that cannot be read, and those with a key that leads to no row.
func (c *insideCheck) look(l *insideLink, src *sourceTable, rows []row) {
	parent := c.ws.jobs[l.parent]
	key := parent.key()
	place := strings.Join(l.columns(), "+")
	if l.list == "" {
		place += " " + strings.TrimPrefix(l.as(), "path ")
	}
	find := func(to *findings, code Code, message, remedy string) {
		to.add(Problem{Code: code, Server: src.owner.Name, Table: src.job.name, Column: place, Message: message,
			Remedy: remedy})
	}
	found := make([][]any, len(rows)) // by row, its keys
	asked := map[string]any{}
	for i, r := range rows {
		values := l.parts(r)
		if values == nil {
			continue
		}
		keys, err := l.keys(values)
		if err != nil {
			find(&l.broken, CodeRefused, fmt.Sprintf("the references cannot be read, such as in row %s: %v",
				sqldb.KeyText(r.key), err), remedyOfInside)
			continue
		}
		for _, v := range keys {
			v = identity(v, key, src.raw)
			found[i] = append(found[i], v)
			asked[sqldb.KeyText([]any{v})] = v
		}
	}
	there := c.existing(parent, src.server, asked)
	orphan := func(i int, key any) string {
		return fmt.Sprintf("the reference leads to a row of %s that does not exist or is not copied, such as %s "+
			"in row %s", l.parent, sqldb.Shorten(sqldb.Text(key)), sqldb.KeyText(rows[i].key))
	}
	for i, keys := range found {
		var gone any
		for _, v := range keys {
			none := v == any(int64(0)) // as in bits of which none is set
			if none || there[sqldb.KeyText([]any{v})] {
				continue
			}
			if n, is := v.(int64); !is || n < l.moved.least || n > l.moved.greatest {
				find(&l.lost, CodeOrphan, orphan(i, v), remedyOfInside)
				gone = nil
				break
			}
			gone = v
		}
		if gone != nil {
			find(&l.gone, CodeOrphan, orphan(i, gone)+"; it leads to no row in the target either", "")
		}
	}
}

// existing returns which of some keys the copied rows of a table of a server have.
func (c *insideCheck) existing(parent *tableJob, server int, asked map[string]any) map[string]bool {
	const batch = 500
	there := make(map[string]bool, len(asked))
	src, db, key := parent.sources[server], c.ws.servers[server].db, parent.key()
	if src == nil {
		return there
	}
	source := src.table.Column(key.Name)
	var all []any
	for _, v := range asked {
		_, err := sqldb.Canonical(v, key, false)
		v, is := source.Key(db.Kind, v)
		_, can := source.Asked(db.Kind, v, src.raw)
		if is && can && (src.raw || err == nil) { // otherwise the column cannot hold it
			all = append(all, v)
		}
	}
	var ask func(some []any)
	ask = func(some []any) {
		q := db.SQL("SELECT ", source.ReadExpression(db.Kind),
			src.sel.rows(src, source.Is(db.Kind, "s."+db.Kind.Quote(source.Name), some)))
		err := db.Each(c.Ctx, q, func(values []any) error {
			there[sqldb.KeyText([]any{identity(values[0], key, src.raw)})] = true
			return nil
		})
		if middle := len(some) / 2; !sqldb.IsDataError(err) {
			c.Fail(err)
		} else if middle > 0 { // The database cannot even compare one that it refuses, so it is none of its keys.
			ask(some[:middle])
			ask(some[middle:])
		}
	}
	for some := range slices.Chunk(all, batch) {
		if c.Err == nil {
			ask(some)
		}
	}
	return there
}

// disputed counts the rows in which two references hold that would change the same key in two ways.
func (c *insideCheck) disputed() {
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		for _, l := range src.links {
			for _, m := range l.rivals {
				o := src.links[m]
				if o.repeats(l.link) {
					continue
				}
				value, _, _ := src.sel.given(j, o.column, "s")
				condition := []string{value + " IS NOT NULL"}
				for _, when := range []string{o.link.when, l.link.when} {
					if when != "" {
						condition = append(condition, "("+when+")")
					}
				}
				n := c.Count(s.db, src.sel.rows(src, condition...))
				c.broken = c.broken || n > 0
				c.found(n, Problem{Code: CodePlan, Server: s.Name, Table: j.name, Column: o.column,
					Message: "two references hold, and the same keys would have to follow " +
						disputants(o.link, l.link),
					Remedy: "let no two conditions of when: hold in one row, or correct the rows on their server"})
			}
		}
	})
}
