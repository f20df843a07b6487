package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// leftBehind looks for keys that a renumbered table has no more, in the columns that refer to it. All of its
// keys have moved, so none of them may be left.
func leftBehind(ctx context.Context, j *job) {
	k := j.v.target.kind
	for _, r := range j.links {
		parent := j.v.jobs[r.parent]
		if parent == nil || !parent.moves || !parent.plan.First || r.inside() || r.when != "" ||
			!slices.Equal(r.targets, []string{parent.identity().name}) || parent.highest < 0 ||
			parent == j && r.columns[0] == j.identity().name {
			continue
		}
		name := k.quote(r.columns[0])
		if c := j.target.column(r.columns[0]); c != nil && c.class != classNumber {
			name = k.integer(name)
		}
		j.v.noRows(ctx, "apart", j.name, "rows whose "+r.columns[0]+" has an old key of "+parent.name,
			fmt.Sprintf("%s WHERE %s > 0 AND %s < %d AND NOT (%s BETWEEN %d AND %d)", k.quote(j.name), name, name,
				j.v.plan.Counted, name, parent.lowest, parent.highest))
	}
}

// watch says what became of the columns that held keys which have changed. There may be many of them.
func watch(ctx context.Context, v *verifier) {
	var all []*trail
	for _, of := range trails(ctx, v) {
		if most := strongest(of); most != nil {
			all = append(all, most)
		}
	}
	now := make([]int64, len(all))
	u := union{d: v.target}
	for i, t := range all {
		if t.watched.Except == "" {
			number, from := t.numbers(t.child.inTarget())
			u.add(i, from+" AND "+t.leads(v.target, number), "COUNT(*)")
		} else {
			now[i] = t.now(ctx)
		}
	}
	u.each(ctx, func(i int, counts []int64) { now[i] = counts[0] })
	for i, t := range all {
		t.tell(now[i])
	}
}

// strongest returns that of the trails of a column which most rows follow, or nil if nothing is to be said.
func strongest(all []*trail) (most *trail) {
	for _, t := range all {
		// To any parent they lead only if these are no mere chance.
		few := len(t.watched.Of) == 0 && (t.before == 0 || 2*t.before < t.all)
		if !few && (most == nil || t.before > most.before) {
			most = t
		}
	}
	if most == nil || most.watched.Except != "" && !most.parent.plan.First {
		return nil
	}
	return most
}

// tell says where so many rows lead now that held keys. If the keys are apart now, they lead nowhere. If they
// are not, the rows of a column that may refer lead to those of other servers. It is a difference if every
// value was a key, but for keys of rows that have become one: these may have had one key on all servers.
func (t *trail) tell(now int64) {
	v, w, parent := t.child.v, t.watched, t.parent
	column := w.Column
	if w.Except != "" {
		column += ", in rows that no when: applies to,"
	}
	tell := func(leads string, want, got int64) {
		v.compare("apart", w.Table, "", "rows whose "+column+" held keys of "+parent.name+" and leads to "+leads+
			" now", strconv.FormatInt(want, 10), strconv.FormatInt(got, 10))
		told := &v.findings[len(v.findings)-1]
		told.Column, told.Except, told.Parent, told.Rows = w.Column, w.Except, parent.name, t.all
	}
	switch {
	case parent.plan.First:
		tell("no row", t.before, t.before-now)
	case t.all == t.before && w.Likely && !w.Plain && parent.moves:
		v.none("apart", w.Table, "rows whose "+column+", which held nothing but keys of "+parent.name+
			", leads to rows of another server", max(now-t.stay, 0))
	default: // It holds keys by chance, or some of the rows that it refers to were deleted.
		tell("no row, or to one of another server", t.before-t.stay, t.before-t.stay)
	}
}

// trail is what the sources have in a watched column: how many rows have a number, how many of these led to a
// parent, and how many to one whose server has kept its keys.
type trail struct {
	watched           Watched
	child, parent     *job
	all, before, stay int64
}

// trails follows the watched columns on all sources to each of their tables whose keys have changed.
func trails(ctx context.Context, v *verifier) [][]*trail {
	all := make([][]*trail, len(v.plan.Watched))
	for i, w := range v.plan.Watched {
		child, parents := v.jobs[w.Table], w.Of
		if len(w.Of) == 0 {
			parents = slices.Sorted(maps.Keys(v.jobs))
		}
		for _, name := range parents {
			parent := v.jobs[name]
			if child != nil && child.target.column(w.Column) != nil && parent != nil && parent.renumbered() {
				all[i] = append(all[i], &trail{watched: w, child: child, parent: parent})
			}
		}
	}
	// The sources are asked at once, each of which has a connection of its own.
	var sources sync.WaitGroup
	var adds sync.Mutex
	for server, d := range v.sources {
		u, here := union{d: d}, make([][]*trail, len(all))
		for i, of := range all {
			absent := func(t *trail) bool { return t.parent.side(server) == nil }
			if here[i] = slices.DeleteFunc(slices.Clone(of), absent); len(here[i]) == 0 {
				continue
			}
			s := here[i][0].child.side(server)
			if s == nil || s.table.column(here[i][0].watched.Column) == nil {
				continue
			}
			// Many rows have few numbers, so each of these is looked for once.
			number, from := here[i][0].numbers(s)
			list := []string{"COALESCE(SUM(v.n), 0)"}
			for _, t := range here[i] {
				list = append(list, "COALESCE(SUM(CASE WHEN "+t.leads(d, "v.x")+" THEN v.n END), 0)")
			}
			u.add(i, " FROM (SELECT "+number+" AS x, COUNT(*) AS n"+from+" GROUP BY "+number+") AS v", list...)
		}
		sources.Go(func() {
			u.each(ctx, func(i int, counts []int64) {
				adds.Lock()
				defer adds.Unlock()
				for n, t := range here[i] {
					hits := counts[1+n]
					t.all, t.before = t.all+counts[0], t.before+hits
					if t.parent.keeps(server) {
						t.stay += hits
					}
				}
			})
		})
	}
	sources.Wait()
	return all
}

// renumbered reports whether the keys of a table have changed, also if rows have become one.
func (j *job) renumbered() bool { return j.moves || j.plan.Renumber && j.identity() != nil }

// keeps reports whether the keys of a server have stayed. Where rows have become one, the first server keeps
// its keys.
func (j *job) keeps(server int) bool {
	if !j.moves {
		return server == 0 && !j.plan.First
	}
	return j.side(server).added == 0
}

// leads is the condition that a number is a key of the parent.
func (t *trail) leads(d *database, number string) string {
	return "EXISTS (SELECT 1 FROM " + d.kind.quote(t.parent.name) + " AS p WHERE p." +
		d.kind.quote(t.parent.identity().name) + " = " + number + ")"
}

// numbers returns SQL for the numbers in the watched column of a side, and for the rows that have one. Of a
// list it is the first.
func (t *trail) numbers(s *side) (number, from string) {
	number = "c." + s.d.kind.quote(t.watched.Column)
	if c := s.table.column(t.watched.Column); c.class != classNumber || c.declared == "boolean" {
		number = s.d.kind.leading(number)
	}
	from = " FROM " + s.d.kind.quote(t.child.name) + " AS c WHERE " + number + " <> 0"
	if t.watched.Except != "" {
		from += " AND CASE WHEN " + t.watched.Except + " THEN 0 ELSE 1 END = 1"
	}
	return number, from
}

// now counts the rows of the target that have a key of the parent. A condition is SQL of the sources, about
// the rows there, so these are asked for the numbers that no reference has changed, and the target for its
// keys.
func (t *trail) now(ctx context.Context) (rows int64) {
	target, key := t.parent.v.target, t.parent.identity().name
	found := map[string]int64{} // rows by number
	ask := func() {
		if len(found) == 0 {
			return
		}
		name := target.kind.quote(key)
		target.each(ctx, "SELECT "+name+" FROM "+target.kind.quote(t.parent.name)+" WHERE "+name+" IN ("+
			strings.Join(slices.Collect(maps.Keys(found)), ", ")+")", nil,
			func(values []any) { rows += found[textOf(values[0])] })
		clear(found)
	}
	for _, s := range t.child.sides {
		if s.table.column(t.watched.Column) == nil {
			continue
		}
		number, from := t.numbers(s)
		text := fmt.Sprintf("SELECT %s, COUNT(*)%s AND %[1]s BETWEEN %[3]d AND %d GROUP BY %[1]s", number, from,
			t.parent.lowest, t.parent.highest)
		s.d.each(ctx, text, nil, func(values []any) {
			if found[textOf(values[0])] += s.d.parse(textOf(values[1])); len(found) == asked {
				ask()
			}
		})
		ask()
	}
	return rows
}

// asked is about how many numbers one statement asks for.
const asked = 1000
