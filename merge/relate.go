package merge

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// openWorkspace opens the databases and relates their tables.
func openWorkspace(ctx context.Context, plan *Plan, opts []Option) (_ *workspace, err error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	ws := &workspace{given: plan, jobs: map[string]*tableJob{}, options: options{
		chunkRows: 10_000, failpoint: func(string) {},
	}}
	ws.elsewhere, ws.offsets = &elsewhere{ws: ws}, &keyOffsets{ws: ws}
	for _, o := range opts {
		o(&ws.options)
	}
	if ws.open == nil {
		return nil, fmt.Errorf("%w: no opener is set: use WithOpener", ErrOpen)
	}
	if ws.layout, err = plan.Layout.decoder(); err != nil {
		return nil, fmt.Errorf("%w: layout: %w", ErrPlan, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ws.close())
		}
	}()
	if err := ws.connectAll(ctx); err != nil {
		return nil, err
	}
	ws.journal = &journal{target: ws.target, failpoint: ws.failpoint}
	if err := ws.distinct(ctx); err != nil {
		return nil, err
	}
	ws.plan, ws.problems = plan.resolved(ws.target.Tables)
	ws.relate()
	return ws, nil
}

// connectAll opens the servers and the target, all at once: most of the time goes by in waiting for them.
func (ws *workspace) connectAll(ctx context.Context) error {
	opened := make([]*sqldb.DB, len(ws.given.Servers)+1)
	err := atOnce(len(opened), func(i int) (err error) {
		name, dsn, target := "the target", ws.given.Target.DSN, i == len(ws.given.Servers)
		if !target {
			name, dsn = ws.given.Servers[i].Name, ws.given.Servers[i].DSN
		}
		opened[i], err = ws.connect(ctx, name, dsn, target)
		return err
	})
	for i, s := range ws.given.Servers {
		if opened[i] != nil {
			ws.servers = append(ws.servers, &server{Server: s, db: opened[i]})
		}
	}
	ws.target = opened[len(opened)-1]
	return err
}

func (ws *workspace) connect(ctx context.Context, name, dsn string, target bool) (*sqldb.DB, error) {
	dsn, err := resolveDSN(name, dsn)
	if err != nil {
		return nil, err
	}
	// The opener of the caller may not be made for several calls at a time.
	open := func(ctx context.Context, dsn string) (*sql.DB, error) {
		ws.opening.Lock()
		defer ws.opening.Unlock()
		return ws.open(ctx, dsn)
	}
	d, err := sqldb.Open(ctx, open, name, dsn, target)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(d.Tables, func(_ string, t *sqldb.Table) bool { return isOurs(t) })
	return d, nil
}

// distinct refuses a database that is named twice. A server that is there twice would be merged with itself,
// without the rows of the one that was meant, and every row would be where it has to be.
func (ws *workspace) distinct(ctx context.Context) error {
	all := ws.databases()
	for i, d := range all {
		for _, other := range all[:i] {
			same, err := d.Same(ctx, other)
			if err != nil {
				return err
			}
			if same {
				return fmt.Errorf("%w: %s and %s are the same database: give each of them the DSN of its own",
					ErrPlan, other.Name, d.Name)
			}
		}
	}
	return nil
}

// relate makes the jobs: which table of which source goes to which table of the target. It notes the
// problems that it meets.
func (ws *workspace) relate() {
	for name, p := range sorted(ws.plan.Tables) {
		if !p.Policy.copies() {
			continue
		}
		target := ws.target.Tables[name]
		if target == nil {
			ws.problems = append(ws.problems, Problem{Code: CodeMissingTable, Server: ws.target.Name, Table: name,
				Message: "the target has no such table",
				Remedy:  "run the migrations of the game on the target, or give the table the policy skip"})
			continue
		}
		j := &tableJob{name: name, plan: p, target: target, sources: make([]*sourceTable, len(ws.servers))}
		for _, name := range p.Convert {
			if c := target.Column(name); c != nil {
				c.Cuts = true
			}
		}
		for i, s := range ws.servers {
			if source := s.db.Tables[name]; source != nil {
				j.sources[i] = ws.newSource(j, i, source)
			}
		}
		ws.jobs[name] = j
	}
	for _, j := range ws.jobs {
		j.refs = ws.references(j)
	}
	ws.order, ws.circles = sortTables(ws.jobs)
	ws.follow()
	for _, src := range ws.sources() {
		src.prepared(ws)
	}
}

// spelled says what a table of the target is called that has the name of another one in other letters, as
// servers have it that store all names in small ones.
func (ws *workspace) spelled(name string) string {
	for other := range sorted(ws.target.Tables) {
		if strings.EqualFold(name, other) {
			return ", but " + other
		}
	}
	return ""
}

// newSource returns a table of a server, as far as it goes to the target: all columns, or some and the key.
// It is of use once it is prepared.
func (ws *workspace) newSource(j *tableJob, server int, source *sqldb.Table, some ...string) *sourceTable {
	own := ws.servers[server]
	kind := own.db.Kind
	src := &sourceTable{job: j, server: server, owner: own, sel: newSelection(ws, server), table: source,
		order: source.Order(), raw: kind.Untyped() && ws.target.Kind.Untyped()}
	for _, target := range j.target.Writable() {
		c, set := source.Column(target.Name), j.plan.Set[target.Name] != ""
		if c == nil && set {
			c = target // what the plan sets needs no column there
		}
		wanted := some == nil || slices.Contains(slices.Concat(some, source.Primary), target.Name)
		if c != nil && wanted {
			src.pairs = append(src.pairs, pair{source: c, target: target,
				native: kind == ws.target.Kind && c.Declared == target.Declared && !set})
		}
	}
	if src.key = src.positions(source.Primary); slices.Contains(src.key, -1) {
		src.key = nil // a part of the key does not identify rows
	}
	return src
}

// prepared notes what has to follow, and which expressions have to be read for that besides the columns.
func (src *sourceTable) prepared(ws *workspace) *sourceTable {
	need := func(expression string) int {
		src.extras = append(src.extras, expression)
		return len(src.extras) - 1
	}
	j, s := src.job, src.sel
	exists := func(parent string) bool {
		return ws.jobs[parent] != nil && ws.jobs[parent].sources[src.server] != nil
	}
	condition := func(when string) int {
		if when == "" {
			return -1
		}
		return need("CASE WHEN " + when + " THEN 1 ELSE 0 END")
	}
	if src.competes = -1; j.exempts() {
		src.competes = condition(j.plan.Rename.When)
	}
	for index, p := range src.pairs {
		if set := j.plan.Set[p.target.Name]; strings.Contains(set, wordRenamed) {
			src.flags = append(src.flags, sourceFlag{index, need(s.shown(p.target, s.setFor(set, "1")))})
		}
	}
	linked := func(links []link, there bool) (all []sourceLink) {
		for _, l := range links {
			positions := src.positions(l.columns())
			if !slices.Contains(positions, -1) && exists(l.parent) == there && (there || l.inside()) {
				all = append(all, sourceLink{link: l, index: positions[0], when: condition(l.when), all: positions,
					own: l.parent == j.name && j.key() != nil && j.key().Name == l.column})
			}
		}
		return all
	}
	src.links, src.whole = linked(j.follows.links, true), linked(j.follows.whole, true)
	src.adrift = linked(j.follows.links, false)
	for n, l := range src.links { // those before it that may lead to the same keys
		for m, o := range src.links[:n] {
			if o.meets(l.link) {
				src.links[n].rivals = append(src.links[n].rivals, m)
			}
		}
	}
	for _, n := range j.follows.names {
		if src.index(n.column) < 0 || !exists(n.parent) {
			continue
		}
		name := sourceName{nameLink: n, index: src.index(n.column)}
		if !n.alone() {
			for _, expression := range s.keyOfNamed(n) {
				name.key = append(name.key, need(expression))
			}
		}
		src.repeats = append(src.repeats, name)
	}
	return src
}

// references returns the foreign keys of the target and the references that the plan declares.
func (ws *workspace) references(j *tableJob) []sqldb.Reference {
	var refs []sqldb.Reference
	for _, ref := range j.target.References {
		if ref = ws.led(ref); len(ref.Target) == len(ref.Columns) {
			refs = append(refs, ref)
		}
	}
	for _, r := range j.plan.References {
		if ws.policy(r.Table) == Skip && ws.target.Tables[r.Table] == nil {
			continue
		}
		ref, parent := ws.led(r.catalog()), ws.target.Tables[r.Table]
		problem := ""
		switch {
		case parent == nil:
			problem = "the target has no table " + r.Table + ws.spelled(r.Table)
		case len(ref.Target) != len(ref.Columns):
			problem = fmt.Sprintf("it has %d columns, and %s is referred to by %d",
				len(ref.Columns), r.Table, len(ref.Target))
		case slices.ContainsFunc(r.columns(), func(name string) bool { return j.target.Column(name) == nil }):
			problem = "the target lacks a column of it"
		case slices.ContainsFunc(ref.Target, func(name string) bool { return parent.Column(name) == nil }):
			problem = "the table that it refers to lacks a column of it"
		case ref.Bits != "" && (parent.Column(ref.Target[0]).Family != sqldb.FamilyInt ||
			slices.ContainsFunc(r.columns(), func(name string) bool {
				return j.target.Column(name).Family != sqldb.FamilyInt
			})):
			problem = "bits are those of columns of whole numbers, and of keys of that kind"
		case ref.Path != "":
			if _, err := parsePath(ref.Path); err != nil {
				problem = err.Error()
			}
		}
		if problem != "" {
			ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name,
				Column:  strings.Join(ref.Columns, ", "),
				Message: "the reference to " + r.Table + " cannot be followed: " + problem,
				Remedy:  "correct it under references: of the table"})
			continue
		}
		faults := ws.unlike(j, ref)
		if ws.problems = append(ws.problems, faults...); len(faults) == 0 {
			refs = append(refs, ref)
		}
	}
	return refs
}

// unlike refuses a reference of the plan to keys with which a database does not compare the column. What is
// so in the target is most likely so on the servers, and told once.
func (ws *workspace) unlike(j *tableJob, ref sqldb.Reference) (faults []Problem) {
	if ref.Inside() {
		return nil
	}
	where := "in the target"
	for _, d := range append([]*sqldb.DB{ws.target}, ws.databases()[:len(ws.servers)]...) {
		t, parent := d.Tables[j.name], d.Tables[ref.Parent]
		for i, name := range ref.Columns {
			c, key := t.Column(name), parent.Column(ref.Target[i])
			if c == nil || key == nil || c.Refers(d.Kind, key) || d != ws.target && j.plan.Set[name] != "" {
				continue
			}
			faults = append(faults, Problem{Code: CodePlan, Server: d.Name, Table: j.name, Column: name,
				Message: fmt.Sprintf("the reference to %s cannot be followed: it is %s %s, which holds no keys such "+
					"as %s.%s, which is %s", ref.Parent, c.Declared, where, ref.Parent, key.Name, key.Declared),
				Remedy: "correct or remove it under identities: or references:, where keys that are a part of what " +
					"a column holds need bits, path or list; or give it the type of the keys, on copies of the " +
					"servers and in the target"})
		}
		if d == ws.target && len(faults) > 0 {
			break
		}
		where = "there"
	}
	return faults
}

// resolved returns the plan with each column of its identities as a reference of its table, which is the one
// form on which everything else works. It also returns the entries that name no column.
func (p *Plan) resolved(target map[string]*sqldb.Table) (*Plan, []Problem) {
	all := *p
	all.Identities, all.Tables = nil, map[string]*TablePlan{}
	for name, t := range p.Tables {
		own := *t
		own.References = slices.Clone(t.References)
		all.Tables[name] = &own
	}
	var faults []Problem
	for _, many := range []bool{false, true} { // what is named comes before patterns
		for name, id := range sorted(p.Identities) {
			for _, text := range id.In {
				e, err := parseHolder(text)
				if err != nil || e.many() != many {
					continue
				}
				if !all.refer(id, name, e, target) {
					faults = append(faults, Problem{Code: CodePlan, Table: id.table(name), Column: id.Key,
						Message: fmt.Sprintf("the entry %q under in: of the identity %s is about no column that no "+
							"other reference names", text, name), Remedy: "correct it, or remove it"})
				}
			}
		}
	}
	return &all, faults
}

// refer adds what an entry of an identity says to the references of tables, and reports whether that is
// anything.
func (p *Plan) refer(id *Identity, name string, e holder, target map[string]*sqldb.Table) (found bool) {
	parent, key := target[id.table(name)], id.Key
	r, err := e.reference()
	if err != nil {
		return false
	}
	if r.Table = id.table(name); parent != nil && len(parent.Primary) == 1 {
		key = cmp.Or(key, parent.Primary[0])
	}
	if key != "" && (parent == nil || !slices.Equal(parent.Primary, []string{key})) {
		r.Target = []string{key}
	}
	if !e.many() {
		p.Tables[e.table].References = append(p.Tables[e.table].References, r)
		return true
	}
	for table, own := range sorted(p.Tables) {
		t := target[table]
		if t == nil || !own.Policy.copies() {
			later := t != nil && own.Policy == NotDecided && t.Column(e.column) != nil && e.covers(table, e.column)
			found = found || later // it is about this column once somebody has decided
			continue
		}
		for _, c := range t.Columns {
			named := slices.ContainsFunc(own.References, func(r Reference) bool {
				return slices.Contains(r.columns(), c.Name)
			})
			held := parent.Column(key)
			another := r.Path+r.List == "" && held != nil && held.Family != c.Family &&
				(!held.Family.Exact() || !c.Family.Exact())
			if !e.covers(table, c.Name) || table == r.Table && c.Name == key || named || another {
				continue
			}
			one := r
			if len(r.Columns) > 0 {
				one.Columns = append([]string{c.Name}, r.Columns[1:]...)
			} else {
				one.Column = c.Name
			}
			own.References, found = append(own.References, one), true
		}
	}
	return found
}

// isOurs reports whether a table is one that a merge has made. The table of a game may have the same name,
// but not the same columns. The journal of 0.9.0 has a position.
func isOurs(t *sqldb.Table) bool {
	if ownTables()[t.Name] == "" {
		return false
	}
	names := sqldb.ColumnNames(ownColumns(t.Name))
	return sameNames(names, sqldb.ColumnNames(t.Columns)) ||
		t.Name == tableJournal && sameNames(append(names, "position"), sqldb.ColumnNames(t.Columns))
}

// follow finds for every table what has to follow. A column may follow over several tables: the key of a
// profile is that of its role, and the key of a page that of its profile.
func (ws *workspace) follow() {
	// A number by which rows become one is that of all of them, so nothing has to follow it. A text may be
	// written in another way on each server.
	same := func(j *tableJob) bool { return !j.changes() && j.key().Family == sqldb.FamilyInt }
	origins := map[place][]link{}
	for _, j := range ws.jobs {
		if j.key() != nil && (j.plan.Renumber != "" || j.plan.Policy.collapses()) {
			p := place{j.name, j.key().Name}
			origins[p] = append(origins[p], link{column: p.column, parent: j.name})
		}
	}
	for changed := true; changed; {
		changed = false
		for _, j := range ws.order {
			for _, ref := range j.refs {
				for i, column := range ref.Columns {
					child, source := place{j.name, column}, place{ref.Parent, ref.Target[i]}
					for _, o := range origins[source] {
						l := link{column: column, parent: o.parent, when: joined(ref.When, o.when, ref.Parent == j.name),
							path: ref.Path, list: ref.List}
						// The bits can be read, since the plan is valid.
						l.bits, _ = parseBits(ref.Bits, append([]string{column}, ref.Rest...))
						if o.inside() || o.when != "" && ref.Parent != j.name || same(ws.jobs[o.parent]) ||
							slices.Contains(origins[child], l) || child == source {
							continue
						}
						origins[child] = append(origins[child], l)
						changed = true
					}
				}
			}
		}
	}
	for _, j := range ws.order {
		f := &follows{}
		for _, c := range j.target.Columns {
			f.links = append(f.links, ws.linksOf(j, c.Name, origins[place{j.name, c.Name}])...)
		}
		for _, ref := range j.refs {
			if parent := ws.jobs[ref.Parent]; parent != nil && parent.plan.Policy.collapses() &&
				len(ref.Columns) > 1 && sameNames(ref.Target, parent.target.Primary) {
				var columns []string
				for _, name := range parent.target.Primary {
					columns = append(columns, ref.Columns[slices.Index(ref.Target, name)])
				}
				all, _ := parseBits("", columns)
				f.whole = append(f.whole, link{column: columns[0], parent: parent.name, when: ref.When, bits: all})
			}
		}
		j.follows = f
	}
	ws.followNames()
	ws.unknownNames()
}

// joined joins two conditions. One that belongs to another table cannot be joined.
func joined(a, b string, same bool) string {
	if !same || b == "" || a == b {
		return a
	}
	if a == "" {
		return b
	}
	return "(" + a + ") AND (" + b + ")"
}

// linksOf checks that no key of a column always follows two tables, wherever it is in the column.
func (ws *workspace) linksOf(j *tableJob, column string, links []link) []link {
	for n, l := range links {
		for _, o := range links[:n] {
			if l.when+o.when != "" || !o.meets(l) || o.repeats(l) {
				continue
			}
			p := Problem{Code: CodePlan, Table: j.name, Column: column,
				Message: "its values would have to follow " + disputants(o, l),
				Remedy:  "tell the two apart by when: on the references, or keep the keys of one of the tables"}
			switch {
			case o.parent == l.parent:
				p.Remedy = "remove one of the references, or tell the two apart by when:"
			case slices.Contains([]string{o.parent, l.parent}, j.name):
				others := strings.Trim(strings.Replace(o.parent+" "+l.parent, j.name, "", 1), " ")
				p.Message = "its values are keys of " + others +
					", which change, so they cannot be renumbered or collapsed by themselves"
				p.Remedy = "remove renumber: from the table, or give it the policy copy: its keys follow those " +
					"that it refers to; or rebuild, if the game computes its rows anew"
			}
			ws.problems = append(ws.problems, p)
			return nil
		}
	}
	return links
}

// followNames finds the columns that repeat names: those that the plan lists as copies, and foreign keys to
// the column of the name.
func (ws *workspace) followNames() {
	named := map[place]bool{} // what repeats a name
	for _, parent := range ws.order {
		r := parent.plan.Rename
		if r == nil {
			continue
		}
		for _, c := range r.Copies {
			j := ws.jobs[c.Table]
			if j == nil || j.target.Column(c.Column) == nil || j.target.Column(cmp.Or(c.Ref, c.Column)) == nil {
				continue
			}
			if c.Ref == "" {
				j.follows.names = append(j.follows.names, nameLink{column: c.Column, parent: parent.name})
				continue
			}
			id := rowBy(parent.target)
			if len(parent.target.Primary) != 1 && (id == nil || !slices.Contains(parent.target.Primary, id.Name)) {
				ws.problems = append(ws.problems, Problem{Code: CodeNameCopy, Table: parent.name, Column: r.Column,
					Message: "copies: no one column of the primary key tells its rows apart, so " + c.Table + "." +
						c.Ref + " does not say whose name is beside it",
					Remedy: "remove the entry, and change such copies on their server; or another policy"})
				continue
			}
			// Beside a key that is a text, other tables may know a row by its number.
			elsewhere := func(ref sqldb.Reference) bool {
				return ref.Parent == parent.name && slices.Equal(ref.Columns, []string{c.Ref}) &&
					!slices.Equal(ref.Target, []string{id.Name})
			}
			if slices.ContainsFunc(j.refs, elsewhere) {
				ws.problems = append(ws.problems, Problem{Code: CodeNameCopy, Table: parent.name, Column: r.Column,
					Message: fmt.Sprintf("copies: %s.%s leads to another column than the primary key %s, so it does "+
						"not say whose name is beside it", c.Table, c.Ref, id.Name),
					Remedy: "remove ref: from the entry, and texts that are the name of any row on their server " +
						"follow"})
				continue
			}
			j.follows.names = append(j.follows.names, nameLink{column: c.Column, parent: parent.name,
				ref:   sqldb.Reference{Columns: []string{c.Ref}, Target: []string{id.Name}},
				keyed: len(parent.target.Primary) == 1})
		}
		for _, j := range ws.order {
			for _, ref := range j.refs {
				index := slices.Index(ref.Target, r.Column)
				if ref.Parent != parent.name || index < 0 {
					continue
				}
				if ref.When != "" || ref.Inside() {
					ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name, Column: ref.Columns[index],
						Message: "a reference to a name that may change cannot have when:, path:, list: or bits:",
						Remedy:  "list the column under copies: of the rename"})
					continue
				}
				named[place{j.name, ref.Columns[index]}] = true
				j.follows.names = append(j.follows.names, nameLink{column: ref.Columns[index], parent: parent.name,
					ref: ref})
			}
		}
	}
	for _, j := range ws.order {
		for _, ref := range j.refs {
			for i, column := range ref.Target {
				if named[place{ref.Parent, column}] {
					ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name, Column: ref.Columns[i],
						Message: fmt.Sprintf("it refers to %s.%s, which itself repeats a name that may change",
							ref.Parent, column),
						Remedy: "declare it under copies: of the rename, or let it refer to the table of the names"})
				}
			}
		}
	}
}

// unknownNames reports columns by which rows are compared before the new names in them are known, as tables
// in a circle are.
func (ws *workspace) unknownNames() {
	for i, j := range ws.order {
		for _, n := range j.follows.names {
			named := func(parent *tableJob) bool { return parent.name == n.parent }
			if slices.IndexFunc(ws.order, named) >= i && j.compares(n.column) {
				ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name, Column: n.column,
					Message: "rows are compared by it before the new names of " + n.parent + " in it are known, " +
						"because " + n.parent + " does not come before " + j.name,
					Remedy: "remove the reference or the entry under copies: that leads from " + n.parent + " back " +
						"to " + j.name + ", or make such names different on the servers"})
			}
		}
	}
}

// keyOfNamed returns SQL for each column of the primary key of the row whose name a row, with the alias s,
// has. The server itself compares the names, by its collation.
func (s selection) keyOfNamed(n nameLink) []string {
	var joins, all []string
	for i, column := range n.ref.Columns {
		if n.keyed {
			return []string{"s." + s.kind.Quote(column)}
		}
		joins = append(joins, "pn."+s.kind.Quote(n.ref.Target[i])+" = s."+s.kind.Quote(column))
	}
	parent := s.ws.jobs[n.parent]
	for _, name := range parent.target.Primary {
		list := "pn." + s.kind.Quote(name)
		if c := parent.sources[s.server].table.Column(name); c != nil {
			list = strings.ReplaceAll(c.ReadExpression(s.kind), "s."+s.kind.Quote(name), list)
		}
		all = append(all, "(SELECT "+list+" FROM "+s.table(n.parent)+" AS pn WHERE "+
			strings.Join(joins, " AND ")+")")
	}
	return all
}

// sortTables orders parents before children, and tables whose names change before those whose rows are
// compared by them, so that the new ones are known. Tables that refer to each other in a circle follow each
// other; their order depends only on the references that cannot be NULL. The result depends on names and
// references alone, so every run has the same order.
func sortTables(jobs map[string]*tableJob) (order []*tableJob, circles []circle) {
	named := map[string][]string{} // the tables whose names rows of a table are compared by
	for name, j := range sorted(jobs) {
		if j.plan.Rename == nil {
			continue
		}
		for _, c := range j.plan.Rename.Copies {
			if copies := jobs[c.Table]; copies != nil && copies.compares(c.Column) {
				named[c.Table] = append(named[c.Table], name)
			}
		}
	}
	parents := func(name string) (all []string) {
		for _, ref := range jobs[name].refs {
			all = append(all, ref.Parent)
		}
		return all
	}
	leads := reachable(jobs, parents)
	after := reachable(jobs, func(name string) []string { return append(parents(name), named[name]...) })
	done := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if done[name] || jobs[name] == nil {
			return
		}
		var group []string
		for other := range sorted(jobs) {
			if other == name || leads[place{name, other}] && leads[place{other, name}] {
				group, done[other] = append(group, other), true
			}
		}
		for _, member := range group {
			for _, parent := range parents(member) {
				add(parent)
			}
			for _, parent := range named[member] {
				if !after[place{parent, member}] { // in a circle, what must exist first decides
					add(parent)
				}
			}
		}
		names, possible := sortCircle(jobs, group, named)
		for _, name := range names {
			order = append(order, jobs[name])
		}
		if last := order[len(order)-len(names):]; len(last[0].circular) > 0 {
			circles = append(circles, circle{slices.Clone(last), !possible})
		}
	}
	for name := range sorted(jobs) {
		add(name)
	}
	return order, circles
}

// reachable returns from which table one comes to which other one, over any number of tables between them.
func reachable(jobs map[string]*tableJob, next func(name string) []string) map[place]bool {
	leads := map[place]bool{}
	var follow func(from, by string)
	follow = func(from, by string) {
		for _, name := range next(by) {
			if pair := (place{from, name}); jobs[name] != nil && !leads[pair] {
				leads[pair] = true
				follow(from, name)
			}
		}
	}
	for name := range jobs {
		follow(name, name)
	}
	return leads
}

// sortCircle orders the tables of a circle and marks the references that must wait until all rows exist. It
// reports whether such an order exists. Where the order is free, tables whose names change come before those
// whose rows are compared by them.
func sortCircle(jobs map[string]*tableJob, group []string, named map[string][]string) ([]string, bool) {
	waits := map[string][]string{} // the parents that must be copied before a table
	possible := true
	for _, name := range group {
		j := jobs[name]
		for _, ref := range j.refs {
			if !slices.Contains(group, ref.Parent) {
				continue
			}
			j.circular = append(j.circular, ref)
			switch {
			case !ref.Enforced || j.nullable(ref) != "":
			case ref.Parent == name:
				possible = false
			default:
				waits[name] = append(waits[name], ref.Parent)
			}
		}
	}
	var order []string
	missing := func(name string) bool { return slices.Contains(group, name) && !slices.Contains(order, name) }
	for len(order) < len(group) {
		free := func(name string) bool { return missing(name) && !slices.ContainsFunc(waits[name], missing) }
		next := slices.IndexFunc(group, func(name string) bool {
			return free(name) && !slices.ContainsFunc(named[name], missing)
		})
		if next < 0 {
			next = slices.IndexFunc(group, free)
		}
		if next < 0 {
			return group, false
		}
		order = append(order, group[next])
	}
	return order, possible
}
