package verify

import (
	"context"
	"maps"
	"slices"
	"strconv"
)

// shifts looks at what became of keys that were renumbered, beyond the rows that hold them.
type shifts struct{ v *verifier }

// left looks for keys that a renumbered table has no more, in the columns that refer to it. All of its keys
// have moved, so none of them may be left.
func (s *shifts) left(ctx context.Context, j *job) error {
	v := s.v
	k := v.target.kind
	for _, r := range j.links {
		parent := v.jobs[r.parent]
		if parent == nil || parent.offsets == nil || !parent.plan.First || r.inside() || r.when != "" ||
			!slices.Equal(r.targets, []string{parent.identity().name}) {
			continue
		}
		last := slices.Max(parent.upper)
		if last < 0 || parent == j && r.columns[0] == j.identity().name {
			continue
		}
		name := k.quote(r.columns[0])
		if c := j.to.column(r.columns[0]); c != nil && c.class != classNumber {
			name = k.integer(name)
		}
		n, err := v.target.text(ctx, "SELECT COUNT(*) FROM "+k.quote(j.name)+" WHERE "+name+" > 0 AND "+name+" "+
			"< "+
			strconv.FormatInt(v.plan.Counted, 10)+" AND NOT ("+name+" BETWEEN "+
			strconv.FormatInt(parent.lowest, 10)+" AND "+strconv.FormatInt(last, 10)+")")
		if err != nil {
			return err
		}
		v.compare("apart", j.name, "", "rows whose "+r.columns[0]+" has an old key of "+parent.name, "0", n)
	}
	return nil
}

// watched says what became of a column that held keys which have changed. If they are apart now, its rows
// lead nowhere, which is told. If they are not, and every value was a key, its rows lead to those of other
// servers.
func (s *shifts) watched(ctx context.Context, w Watched) error {
	v := s.v
	parents := w.Of
	if len(w.Of) == 0 { // if these are no mere chance
		parents = slices.Sorted(maps.Keys(v.jobs))
	}
	var most *trail
	for _, name := range parents {
		t, err := s.trail(ctx, w, v.jobs[name])
		if err != nil {
			return err
		}
		if t == nil || len(w.Of) == 0 && (t.before == 0 || 2*t.before < t.all) {
			continue
		}
		if most == nil || t.before > most.before {
			most = t
		}
	}
	if most == nil {
		return nil
	}
	now, err := most.rows(ctx, v.target, most.child.to, most.keys(v.target, most.child.to))
	if err != nil {
		return err
	}
	column := w.Column
	if w.Except != "" {
		column += ", in rows that no when: applies to,"
	}
	parent := most.parent
	switch strangers := max(now-most.stay, 0); {
	case parent.plan.First:
		v.compare("apart", w.Table, "", "rows whose "+column+" held keys of "+parent.name+
			" and leads to no row now", strconv.FormatInt(most.before, 10), strconv.FormatInt(most.before-now, 10))
	case most.all == most.before && w.Likely:
		v.compare("apart", w.Table, "", "rows whose "+column+", which held nothing but keys of "+parent.name+
			", leads to rows of another server", "0", strconv.FormatInt(strangers, 10))
	}
	return nil
}

// trail is what the sources have in a watched column: how many rows have a number, how many of these led to a
// parent, and how many to one whose server has kept its keys.
type trail struct {
	watched           Watched
	child, parent     *job
	all, before, stay int64
}

// trail follows a watched column on all sources. It is nil if the keys of the parent have not changed.
func (s *shifts) trail(ctx context.Context, w Watched, parent *job) (*trail, error) {
	v := s.v
	t := &trail{watched: w, child: v.jobs[w.Table], parent: parent}
	if t.child == nil || parent == nil || parent.offsets == nil || t.child.to.column(w.Column) == nil {
		return nil, nil
	}
	for i, d := range v.sources {
		from := t.child.from[i]
		if from == nil || from.column(w.Column) == nil || parent.from[i] == nil {
			continue
		}
		all, err := t.rows(ctx, d, from, "")
		if err != nil {
			return nil, err
		}
		hits, err := t.rows(ctx, d, from, t.keys(d, from))
		if err != nil {
			return nil, err
		}
		t.all, t.before = t.all+all, t.before+hits
		if parent.offsets[i] == 0 {
			t.stay += hits
		}
	}
	return t, nil
}

// number returns SQL for the number in the watched column.
func (t *trail) number(d *database, table *relation) string {
	name := "c." + d.kind.quote(t.watched.Column)
	if table.column(t.watched.Column).class != classNumber {
		return d.kind.integer(name)
	}
	return name
}

// rows counts the rows that have a number, under one more condition.
func (t *trail) rows(ctx context.Context, d *database, table *relation, condition string) (int64, error) {
	if t.watched.Except != "" {
		condition += " AND CASE WHEN " + t.watched.Except + " THEN 0 ELSE 1 END = 1"
	}
	text, err := d.text(ctx, "SELECT COUNT(*) FROM "+d.kind.quote(t.child.name)+" AS c WHERE "+
		t.number(d, table)+" <> 0"+condition)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// keys is the condition that the number is a key of the parent.
func (t *trail) keys(d *database, table *relation) string {
	return " AND EXISTS (SELECT 1 FROM " + d.kind.quote(t.parent.name) + " AS p WHERE p." +
		d.kind.quote(t.parent.identity().name) + " = " + t.number(d, table) + ")"
}
