package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// elsewhere says of the rows that have no parent on their own server which of them have one in the target all
// the same: a row of another server, or one that the target had before. It knows references of one whole
// number, which is what an ID is. Other references are judged by the rows of their own server.
type elsewhere struct {
	ws *workspace
	// found are the values that lead to no row of their own server, but to one of another.
	found map[leading][]int64
	// lost are the values that lead to no row of a table that the plan skips, so that the target must have it.
	lost map[leading][]int64
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

// mostElsewhere is how many different values a statement lists.
const mostElsewhere = 20_000

// find looks at every reference, parents first.
func (e *elsewhere) find(ctx context.Context) ([]Problem, error) {
	var problems []Problem
	*e = elsewhere{ws: e.ws, found: map[leading][]int64{}, lost: map[leading][]int64{},
		none: map[leading]bool{}}
	err := e.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		for _, ref := range j.refs {
			if !e.judges(j, src, ref) {
				continue
			}
			found, lost, err := e.look(ctx, j, src, ref)
			if err != nil {
				return err
			}
			at := leadingOf(j, ref, src.server)
			values := found
			if e.ws.policy(ref.Parent) == Skip {
				values = lost
			}
			if len(values) > mostElsewhere {
				problems = append(problems, Problem{Code: CodeOrphan, Server: s.Name, Table: j.name,
					Column: ref.Columns[0], Count: int64(len(values)),
					Message: fmt.Sprintf("more than %d different values of the reference lead to rows of %s that this "+
						"server does not have: too many to be told apart one by one", mostElsewhere, ref.Parent),
					Remedy: "correct the rows on their server, or drop the constraint, or the entry under " +
						"references:, until the merge is done"})
				continue
			}
			if e.ws.policy(ref.Parent) == Skip {
				e.lost[at] = lost
			} else {
				e.found[at] = found
			}
			e.none[at] = len(found)+len(lost) == 0
		}
		return nil
	})
	return problems, err
}

// judges reports whether a value of a reference means the same row in the target as on its server, so that
// the rows of other servers count, or those of the target. What the plan sets a column to is judged by its
// own server.
func (e *elsewhere) judges(j *tableJob, src *sourceTable, ref sqldb.Reference) bool {
	if len(ref.Columns) != 1 || ref.Inside() || j.to.Column(ref.Columns[0]).Family != sqldb.FamilyInt {
		return false
	}
	from := src.from.Column(ref.Columns[0])
	if j.plan.Set[ref.Columns[0]] != "" || from == nil || from.Family != sqldb.FamilyInt {
		return false
	}
	to := e.ws.target.Tables[ref.Parent]
	if to == nil || to.Column(ref.Target[0]) == nil || to.Column(ref.Target[0]).Family != sqldb.FamilyInt {
		return false
	}
	parent := e.ws.jobs[ref.Parent]
	if parent == nil { // what only the plan declares of a table that it skips, nobody enforces
		return e.ws.policy(ref.Parent) == Skip && ref.Enforced
	}
	p, target := parent.plan, ref.Target[0]
	if p.Renumber || p.Policy == Custom || p.Set[target] != "" {
		return false
	}
	if p.Rename != nil && (p.Rename.Column == target || slices.ContainsFunc(p.Rename.Derived,
		func(d DerivedName) bool { return d.Column == target })) {
		return false
	}
	if p.Policy.collapses() { // a row with this key is there if no row is dropped for another key
		keys := parent.collapseKeys()
		if len(keys) != 1 || !slices.Equal(keys[0].Columns(), ref.Target) {
			return false
		}
	}
	f := parent.follows // of a column that follows other rows, each server has values of its own
	follows := func(l link) bool { return l.column == target && l.of != parent.name }
	partly := func(w wholeLink) bool { return slices.Contains(w.columns, target) }
	return !slices.ContainsFunc(f.links, follows) && !slices.ContainsFunc(f.whole, partly)
}

// look finds the values of a reference that lead to no row of their own server. It returns those that lead to
// one elsewhere, and those that do not.
func (e *elsewhere) look(
	ctx context.Context, j *tableJob, src *sourceTable, ref sqldb.Reference,
) (found, lost []int64, err error) {
	sel := newSelection(e.ws, src.server)
	skipped := e.ws.jobs[ref.Parent] == nil
	missing := sel.orphan(j, ref, "s")
	if skipped {
		missing = sel.refers(j, ref, "s")
	}
	if missing == "" {
		return nil, nil, nil
	}
	q := sqldb.NewStatement(sel.kind, "SELECT DISTINCT s.", sel.kind.Quote(ref.Columns[0]), " FROM ",
		sel.table(j.name), " AS s WHERE ", missing)
	if j.plan.Where != "" {
		q.Add(" AND (", j.plan.Where, ")")
	}
	left := map[int64]bool{}
	err = e.ws.servers[src.server].db.Each(ctx, q, func(values []any) error {
		n, err := sqldb.Integer(values[0])
		if id, ok := n.(int64); ok && err == nil { // others cannot be a key
			left[id] = true
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	take := func(db *sqldb.DB, from string) error {
		there, err := e.held(ctx, db, from, ref.Target[0], left)
		for _, id := range there {
			delete(left, id)
		}
		found = append(found, there...)
		return err
	}
	if skipped {
		err = take(e.ws.target, e.ws.target.Kind.Quote(ref.Parent)+" AS s WHERE 1 = 1")
	} else {
		parent := e.ws.jobs[ref.Parent]
		for i, other := range parent.sources {
			if i == src.server || other == nil || err != nil || other.from.Column(ref.Target[0]) == nil {
				continue
			}
			there := sqldb.NewStatement(e.ws.servers[i].db.Kind)
			newSelection(e.ws, i).from(there, other)
			err = take(e.ws.servers[i].db, strings.TrimPrefix(there.String(), " FROM "))
		}
	}
	for id := range left {
		lost = append(lost, id)
	}
	slices.Sort(found)
	slices.Sort(lost)
	return slices.Compact(found), lost, err
}

// held returns which of some values a column of a table holds.
func (e *elsewhere) held(
	ctx context.Context, db *sqldb.DB, from, column string, asked map[int64]bool,
) (there []int64, err error) {
	var ids []int64
	for id := range asked {
		ids = append(ids, id)
	}
	name := "s." + db.Kind.Quote(column)
	for batch := range slices.Chunk(ids, 1000) {
		q := sqldb.NewStatement(db.Kind, "SELECT DISTINCT ", name, " FROM ", from, " AND ", name, " IN (",
			listed(batch), ")")
		err := db.Each(ctx, q, func(values []any) error {
			n, err := sqldb.Integer(values[0])
			if id, ok := n.(int64); ok && err == nil {
				there = append(there, id)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// listed writes numbers as SQL. They stand in conditions, which are texts for every way of copying.
func listed(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ", ")
}

// unless narrows the condition under which a row has no parent on its server to the rows that have none in
// the target either.
func (e *elsewhere) unless(s selection, j *tableJob, ref sqldb.Reference, alias, missing string) string {
	if found := e.found[leadingOf(j, ref, s.server)]; len(found) > 0 {
		missing += " AND " + alias + "." + s.kind.Quote(ref.Columns[0]) + " NOT IN (" + listed(found) + ")"
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
	return refers + " AND " + alias + "." + s.kind.Quote(ref.Columns[0]) + " IN (" + listed(lost) + ")"
}
