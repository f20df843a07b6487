package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// elsewhere says of the rows that have no parent on their own server which of them have one in the target all
// the same: a row of another server, or one that the target had before. It knows references whose values mean
// the same row for every server and for the target. Others are judged by the rows of their own server.
type elsewhere struct {
	ws *workspace
	// found are the values that lead to no row of their own server, but to one of another.
	found map[leading][]string
	// lost are the values that lead to no row of a table that the plan skips, so that the target must have it.
	lost map[leading][]string
	// none holds the references that have no such values on a server, so that no row of it is an orphan.
	none map[leading]bool
}

// leading is a reference of a table on a server.
type leading struct {
	table, column, parent, target, when string
	server                              int
}

func leadingOf(j *tableJob, ref sqldb.Reference, server int) leading {
	return leading{j.name, strings.Join(ref.Columns, "\x00"), ref.Parent, strings.Join(ref.Target, "\x00"),
		ref.When, server}
}

const (
	// mostElsewhere and longestElsewhere are how many different values a statement lists, and their bytes.
	mostElsewhere, longestElsewhere = 20_000, 2 << 20
	// askedAtOnce is how many values one statement looks for. SQLite joins 500 results at most.
	askedAtOnce = 400
)

// find looks at every reference, parents first.
func (e *elsewhere) find(ctx context.Context) ([]Problem, error) {
	var problems []Problem
	*e = elsewhere{ws: e.ws, found: map[leading][]string{}, lost: map[leading][]string{},
		none: map[leading]bool{}}
	err := e.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		for _, ref := range j.refs {
			if !e.judges(j, src, ref) {
				continue
			}
			v, err := e.look(ctx, j, src, ref)
			if err != nil {
				return err
			}
			p := Problem{Code: CodeOrphan, Server: s.Name, Table: j.name,
				Column: strings.Join(ref.Columns, ", ")}
			if v.many {
				p.Count = int64(len(v.listed))
				p.Message = fmt.Sprintf("at least %d different values of the reference lead to rows of %s that "+
					"this server does not have: too many to be told apart one by one", p.Count, ref.Parent)
				p.Remedy = "correct the rows on their server, or drop the constraint, or the entry under " +
					"references:, until the merge is done"
				problems = append(problems, p)
				continue
			}
			if v.open > 0 {
				p.Count = v.open
				p.Message = "nobody can say whether the reference leads to a row of " + ref.Parent + ": no server " +
					"has it in the same letters, and the target has another collation than the servers"
				p.Remedy = "correct the rows on their server, letter by letter, or give the columns the same " +
					"collation on the servers and in the target"
				problems = append(problems, p)
			}
			at := leadingOf(j, ref, src.server)
			if e.ws.policy(ref.Parent) == Skip {
				e.lost[at] = v.listed
			} else {
				e.found[at] = v.listed
			}
			e.none[at] = v.none
		}
		return nil
	})
	return problems, err
}

// judges reports whether a value of a reference means the same row in the target as on its server, so that
// the rows of other servers count, or those of the target. What the plan sets a column to is judged by its
// own server.
func (e *elsewhere) judges(j *tableJob, src *sourceTable, ref sqldb.Reference) bool {
	to, parent := e.ws.target.Tables[ref.Parent], e.ws.jobs[ref.Parent]
	if ref.Inside() || to == nil {
		return false
	}
	for i, name := range ref.Columns {
		from, target := src.from.Column(name), to.Column(ref.Target[i])
		if j.plan.Set[name] != "" || from == nil || target == nil || !from.Comparable(target) ||
			j.to.Column(name).Family != target.Family || e.moves(j, ref, i) {
			return false
		}
		if parent == nil {
			continue
		}
		for k, other := range parent.sources {
			if other == nil {
				continue
			}
			key := other.from.Column(ref.Target[i])
			own := k == src.server
			if key == nil && own || key != nil && (!key.Comparable(target) || own && key.Family != from.Family) {
				return false
			}
		}
		if !e.stays(parent, ref.Target[i]) {
			return false
		}
	}
	if parent == nil { // what only the plan declares of a table that it skips, nobody enforces
		return e.ws.policy(ref.Parent) == Skip && ref.Enforced
	}
	// A row with this key is there if no row is dropped for another key.
	return !parent.plan.Policy.collapses() || sameNames(parent.plan.Key, ref.Target)
}

// moves reports whether a column of a reference follows other rows than those that the reference leads to.
func (e *elsewhere) moves(j *tableJob, ref sqldb.Reference, i int) bool {
	f, column := j.follows, ref.Columns[i]
	return slices.ContainsFunc(f.links, func(l link) bool {
		return l.column == column && l.of != ref.Parent && !l.inside() &&
			(l.when == "" || l.when == ref.When)
	}) || slices.ContainsFunc(f.whole, func(w wholeLink) bool {
		return w.of != ref.Parent && slices.Contains(w.columns, column)
	}) || slices.ContainsFunc(f.names, func(n nameLink) bool { return n.column == column })
}

// stays reports whether every row of a table keeps what it has in a column.
func (e *elsewhere) stays(j *tableJob, column string) bool {
	p, f := j.plan, j.follows
	if p.Renumber != "" && j.key() != nil && j.key().Name == column || p.Set[column] != "" {
		return false
	}
	if p.Rename != nil && (p.Rename.Column == column || slices.ContainsFunc(p.Rename.Derived,
		func(d DerivedName) bool { return d.Column == column })) {
		return false
	}
	// Of a column that follows other rows, each server has values of its own.
	return !slices.ContainsFunc(f.links, func(l link) bool { return l.column == column && l.of != j.name }) &&
		!slices.ContainsFunc(f.whole, func(w wholeLink) bool { return slices.Contains(w.columns, column) }) &&
		!slices.ContainsFunc(f.names, func(n nameLink) bool { return n.column == column })
}

// yardstick returns how a column of the parent of a reference is asked for a value, on its server.
func (e *elsewhere) yardstick(server *sqldb.DB, parent *sqldb.Table, ref sqldb.Reference,
	i int) sqldb.Yardstick {
	standard := e.ws.target.Tables[ref.Parent].Column(ref.Target[i])
	return parent.Column(ref.Target[i]).Measure(server.Kind, standard, e.ws.target.Kind)
}

// verdict is what is known of the values of a reference that lead to no row of their own server.
type verdict struct {
	// listed are, as they stand in statements, those that lead to a row of another server or, if the plan skips
	// the parent, those that do not lead to one of the target.
	listed []string
	bytes  int
	many   bool  // too many to list
	none   bool  // there are no values at all
	open   int64 // how many may lead to a row, or not
}

var errMany = errors.New("too many values")

// look finds the values of a reference that lead to no row of their own server.
func (e *elsewhere) look(ctx context.Context, j *tableJob, src *sourceTable,
	ref sqldb.Reference) (v verdict, err error) {
	sel := newSelection(e.ws, src.server)
	skipped := e.ws.jobs[ref.Parent] == nil
	missing := sel.orphan(j, ref, "s")
	if skipped {
		missing = sel.refers(j, ref, "s")
	}
	if missing == "" {
		return verdict{none: true}, nil
	}
	q := sqldb.NewStatement(sel.kind, "SELECT DISTINCT ", strings.Join(sel.exactly(src, ref, "s"), ", "),
		" FROM ", sel.table(j.name), " AS s WHERE ", missing)
	if j.plan.Where != "" {
		q.Add(" AND (", j.plan.Where, ")")
	}
	var batch [][]any
	judge := func() error {
		there, open, err := e.there(ctx, src, ref, batch)
		for i, key := range batch {
			switch {
			case err != nil:
			case there[i] != skipped:
				v.listed = append(v.listed, constants(sel.kind, key))
				v.bytes += len(v.listed[len(v.listed)-1])
			case open:
				v.open++
			}
		}
		batch = nil
		if err == nil && (len(v.listed) > mostElsewhere || v.bytes > longestElsewhere) {
			v.many = true
			return errMany
		}
		return err
	}
	v.none = true
	err = e.ws.servers[src.server].db.Each(ctx, q, func(values []any) error {
		v.none = false
		for i, name := range ref.Columns {
			value, ok := src.from.Column(name).Key(sel.kind, values[i])
			if !ok {
				return nil // a value of SQLite that no key is
			}
			values[i] = value
		}
		if batch = append(batch, values); len(batch) == askedAtOnce {
			return judge()
		}
		return nil
	})
	if err == nil {
		err = judge()
	}
	if errors.Is(err, errMany) {
		err = nil
	}
	return v, err
}

// constants writes the values of a key as [sqldb.Among] lists them.
func constants(k sqldb.Kind, key []any) string {
	all := make([]string, len(key))
	for i, v := range key {
		all[i] = sqldb.Constant(k, v)
	}
	if len(all) == 1 {
		return all[0]
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// there tells which of some values lead to a row of another server or, if the plan skips the parent, of the
// target. It reports whether the others may all the same lead to a row, in other letters.
func (e *elsewhere) there(ctx context.Context, src *sourceTable, ref sqldb.Reference,
	keys [][]any) (there []bool, open bool, err error) {
	there = make([]bool, len(keys))
	parent := e.ws.jobs[ref.Parent]
	if parent == nil {
		from := sqldb.NewStatement(e.ws.target.Kind, " FROM ", e.ws.target.Kind.Quote(ref.Parent),
			" AS s WHERE 1 = 1")
		return there, false, e.held(ctx, e.ws.target, e.ws.target.Tables[ref.Parent], from.String(), src, ref,
			keys, there)
	}
	for k, other := range parent.sources {
		if other == nil ||
			slices.ContainsFunc(ref.Target, func(name string) bool { return other.from.Column(name) == nil }) {
			continue
		}
		db := e.ws.servers[k].db
		for i := range ref.Target {
			open = open || e.yardstick(db, other.from, ref, i) == sqldb.Unknown
		}
		if k == src.server {
			continue
		}
		from := sqldb.NewStatement(db.Kind)
		newSelection(e.ws, k).from(from, other)
		if err := e.held(ctx, db, other.from, from.String(), src, ref, keys, there); err != nil {
			return nil, false, err
		}
	}
	return there, open, nil
}

// held notes which of some values a table holds, among the rows that the rest of a statement selects.
func (e *elsewhere) held(ctx context.Context, db *sqldb.DB, table *sqldb.Table, from string,
	src *sourceTable, ref sqldb.Reference, keys [][]any, there []bool) error {
	q := sqldb.NewStatement(db.Kind, "SELECT x.merge_n FROM (")
	between := ""
	for n, key := range keys {
		asked, possible := make([]any, len(key)), !there[n]
		for i, name := range ref.Target {
			ok := false
			asked[i], ok = table.Column(name).Asked(db.Kind, key[i], src.raw && db.Kind == sqldb.SQLite)
			possible = possible && ok
		}
		if !possible {
			continue
		}
		q.Add(between, "SELECT ", strconv.Itoa(n), " AS merge_n")
		between = " UNION ALL "
		for i, name := range ref.Target {
			q.Add(", ")
			table.Column(name).Ask(q, asked[i])
			q.Add(" AS merge_", strconv.Itoa(i))
		}
	}
	if between == "" {
		return nil
	}
	q.Add(") AS x WHERE EXISTS (SELECT 1", from)
	for i, name := range ref.Target {
		q.Add(" AND ", table.Column(name).Equals(db.Kind, "s."+db.Kind.Quote(name), "x.merge_"+strconv.Itoa(i),
			e.yardstick(db, table, ref, i)))
	}
	return db.Each(ctx, q.Add(")"), func(values []any) error {
		n, err := strconv.Atoi(sqldb.Text(values[0]))
		if err == nil {
			there[n] = true
		}
		return err
	})
}

// exactly returns the columns of a reference as [sqldb.Constant] compares them.
func (s selection) exactly(src *sourceTable, ref sqldb.Reference, alias string) []string {
	all := make([]string, len(ref.Columns))
	for i, name := range ref.Columns {
		all[i] = src.from.Column(name).Exactly(s.kind, alias+"."+s.kind.Quote(name))
	}
	return all
}

// unless narrows the condition under which a row has no parent on its server to the rows that have none in
// the target either.
func (e *elsewhere) unless(s selection, j *tableJob, ref sqldb.Reference, alias, missing string) string {
	if found := e.found[leadingOf(j, ref, s.server)]; len(found) > 0 {
		missing += " AND NOT " + sqldb.Among(s.kind, s.exactly(j.sources[s.server], ref, alias), found)
	}
	return missing
}

// skipped returns the condition under which a row refers to a row of a table that the plan skips, and the
// target does not have it. It is "" if no row does.
func (e *elsewhere) skipped(s selection, j *tableJob, ref sqldb.Reference, alias, refers string) string {
	lost := e.lost[leadingOf(j, ref, s.server)]
	if len(lost) == 0 {
		return ""
	}
	return refers + " AND " + sqldb.Among(s.kind, s.exactly(j.sources[s.server], ref, alias), lost)
}
