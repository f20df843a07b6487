package verify

import (
	"context"
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

// integer returns SQL for the whole number that a text is.
func (k kind) integer(text string) string {
	switch k {
	case sqlite:
		return "CAST(" + text + " AS INTEGER)"
	case postgres:
		return "CASE WHEN " + text + "::text ~ '^[0-9]{1,18}$' THEN " + text + "::text::bigint END"
	}
	return "CAST(" + text + " AS SIGNED)"
}

// watched says what became of a column that held keys which have changed. If they are apart now, its rows
// lead nowhere, which is told. If they are not, and every value was a key, its rows lead to those of other
// servers.
func (s *shifts) watched(ctx context.Context, w Watched) error {
	v := s.v
	child, parent := v.jobs[w.Table], v.jobs[w.Of]
	if child == nil || parent == nil || parent.offsets == nil || child.to.column(w.Column) == nil {
		return nil
	}
	number := func(d *database, of *relation) string {
		name := "c." + d.kind.quote(w.Column)
		if of.column(w.Column).class != classNumber {
			return d.kind.integer(name)
		}
		return name
	}
	rows := func(d *database, of *relation, condition string) (int64, error) {
		text, err := d.text(ctx, "SELECT COUNT(*) FROM "+d.kind.quote(child.name)+" AS c WHERE "+number(d, of)+
			" <> 0"+condition)
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(text, 10, 64)
	}
	keys := func(d *database, of *relation) string {
		return " AND EXISTS (SELECT 1 FROM " + d.kind.quote(parent.name) + " AS p WHERE p." +
			d.kind.quote(parent.identity().name) + " = " + number(d, of) + ")"
	}
	var before, stay int64 // rows that led to a parent, and those whose parents have kept their keys
	only := true           // each value is a key
	for i, d := range v.sources {
		if child.from[i] == nil || child.from[i].column(w.Column) == nil || parent.from[i] == nil {
			continue
		}
		all, err := rows(d, child.from[i], "")
		if err != nil {
			return err
		}
		hits, err := rows(d, child.from[i], keys(d, child.from[i]))
		if err != nil {
			return err
		}
		before, only = before+hits, only && hits == all
		if parent.offsets[i] == 0 {
			stay += hits
		}
	}
	now, err := rows(v.target, child.to, keys(v.target, child.to))
	if err != nil {
		return err
	}
	switch strangers := max(now-stay, 0); {
	case parent.plan.First:
		v.compare("apart", child.name, "", "rows whose "+w.Column+" held keys of "+parent.name+
			" and leads to no row now", strconv.FormatInt(before, 10), strconv.FormatInt(before-now, 10))
	case only && w.Likely:
		v.compare("apart", child.name, "", "rows whose "+w.Column+", which held nothing but keys of "+parent.name+
			", leads to rows of another server", "0", strconv.FormatInt(strangers, 10))
	}
	return nil
}
