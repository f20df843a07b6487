package verify

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// far are values of a reference of one whole number that the own server of a row does not decide about.
type far struct {
	there []map[int64]bool // by server: they lead to a row that only another server has
	gone  []map[int64]bool // by server: they lead to no row of a table that the plan skips
	any   map[int64]bool   // those of there, of all servers
}

// in returns the condition that a value is one of some, or "" if there are none.
func in(value string, some map[int64]bool) string {
	var texts []string
	for _, n := range slices.Sorted(maps.Keys(some)) {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	if len(texts) == 0 {
		return ""
	}
	return value + " IN (" + strings.Join(texts, ", ") + ")"
}

// at returns the values for one server, which may be the target, or nil.
func at(all []map[int64]bool, server int) map[int64]bool {
	if server < 0 || server >= len(all) {
		return nil
	}
	return all[server]
}

// findFar finds the values of the references of a table that lead to rows of other servers, and those that
// lead to no row of a skipped table.
func (v *verifier) findFar(ctx context.Context, j *job) error {
	for n := range j.links {
		r := &j.links[n]
		if !v.means(j, *r) {
			continue
		}
		skipped := v.jobs[r.parent] == nil
		f := far{there: make([]map[int64]bool, len(v.sources)), gone: make([]map[int64]bool, len(v.sources)),
			any: map[int64]bool{}}
		for i := range v.sources {
			if j.from[i] == nil {
				continue
			}
			lone, err := v.lone(ctx, j, *r, i, skipped)
			if err != nil {
				return err
			}
			if len(lone) == 0 {
				continue
			}
			if skipped {
				held, err := v.target.holds(ctx, v.target.kind.quote(r.parent)+" AS s", "", r.targets[0], lone)
				if err != nil {
					return err
				}
				maps.DeleteFunc(lone, func(id int64, _ bool) bool { return held[id] })
				f.gone[i] = lone
				continue
			}
			parent := v.jobs[r.parent]
			f.there[i] = map[int64]bool{}
			for k, other := range v.sources {
				if k == i || parent.from[k] == nil || parent.from[k].column(r.targets[0]) == nil {
					continue
				}
				held, err := other.holds(ctx, other.kind.quote(r.parent)+" AS s", v.kept(parent, k, "s"),
					r.targets[0], lone)
				if err != nil {
					return err
				}
				maps.Copy(f.there[i], held)
				maps.Copy(f.any, held)
			}
		}
		r.far = f
	}
	return nil
}

// means reports whether a value of a reference means the same row for all servers and in the target.
func (v *verifier) means(j *job, r reference) bool {
	if len(r.columns) != 1 || r.path != "" || r.list != "" || j.plan.Set[r.columns[0]] != "" ||
		j.to.column(r.columns[0]).class != classNumber {
		return false
	}
	table := v.target.tables[r.parent]
	if table == nil || table.column(r.targets[0]) == nil || table.column(r.targets[0]).class != classNumber {
		return false
	}
	parent := v.jobs[r.parent]
	if parent == nil {
		p := v.plan.Tables[r.parent]
		return p != nil && p.Policy == policySkip && r.enforced
	}
	return v.steady(parent, r.targets[0])
}

// steady reports whether every row of a table keeps what it has in a column, or becomes one with a row that
// has the same there.
func (v *verifier) steady(j *job, column string, above ...string) bool {
	p := j.plan
	if p.Renumber && slices.Contains(j.to.primary, column) || p.Policy == policyCustom || p.Set[column] != "" ||
		p.Rename != nil && p.Rename.Column == column || slices.Contains(above, j.name) {
		return false
	}
	if p.joins() {
		keys := [][]string{p.Key}
		if len(p.Key) == 0 {
			keys = [][]string{j.to.primary}
			for _, u := range j.to.unique {
				keys = append(keys, u.columns)
			}
		}
		if len(keys) != 1 || !slices.Equal(keys[0], []string{column}) || len(p.Key) == 0 && len(j.to.opaque) > 0 {
			return false
		}
	}
	for _, r := range j.links {
		at := slices.Index(r.columns, column)
		if parent := v.jobs[r.parent]; at >= 0 && parent != nil && parent != j &&
			(parent.plan.joins() || !v.steady(parent, r.targets[at], append(above, j.name)...)) {
			return false
		}
	}
	return true
}

// lone returns the values of a reference that lead to no row of their own server or, if the plan skips the
// parent, all of them.
func (v *verifier) lone(
	ctx context.Context, j *job, r reference, server int, all bool,
) (map[int64]bool, error) {
	d := v.sources[server]
	value, c := v.given(j, server, r.columns[0], "s")
	if c == nil || c.class != classNumber {
		return nil, nil
	}
	where := v.missing(j, r, server, "s")
	if all {
		where = v.refers(j, r, server, "s")
	}
	if where == "" {
		return nil, nil
	}
	if j.plan.Where != "" {
		where += " AND (" + j.plan.Where + ")"
	}
	return d.numbers(ctx, "SELECT DISTINCT "+value+" FROM "+d.kind.quote(j.name)+" AS s WHERE "+where)
}

// holds returns which of some numbers a column of a table holds in rows that meet a condition.
func (d *database) holds(
	ctx context.Context, from, condition, column string, some map[int64]bool,
) (map[int64]bool, error) {
	held := map[int64]bool{}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(some)), 500) {
		asked := map[int64]bool{}
		for _, n := range batch {
			asked[n] = true
		}
		where := in("s."+d.kind.quote(column), asked)
		if condition != "" {
			where += " AND " + condition
		}
		found, err := d.numbers(ctx, "SELECT DISTINCT s."+d.kind.quote(column)+" FROM "+from+" WHERE "+where)
		if err != nil {
			return nil, err
		}
		maps.Copy(held, found)
	}
	return held, nil
}

// numbers returns the whole numbers of a result.
func (d *database) numbers(ctx context.Context, query string) (map[int64]bool, error) {
	rows, err := d.texts(ctx, query)
	if err != nil {
		return nil, err
	}
	all := map[int64]bool{}
	for _, row := range rows {
		if n, err := strconv.ParseInt(plainNumber(row[0]), 10, 64); err == nil {
			all[n] = true
		}
	}
	return all, nil
}

// leadsFar reports whether a row refers to a row that only another server has. Beside it, that server does
// not show what is in it.
func (r reference) leadsFar(value any) bool {
	if len(r.far.any) == 0 {
		return false
	}
	n, err := strconv.ParseInt(plainNumber(textOf(value)), 10, 64)
	return err == nil && r.far.any[n]
}
