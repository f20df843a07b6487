package verify

import (
	"context"
	"strconv"
	"strings"
)

// parents are the rows of a table that others refer to by whole numbers, with what tells them apart. A
// database takes far longer to look them up for each row than to return them once.
type parents struct {
	places map[int64]int // by key, where a row begins in values
	values []any
}

// mostParents is how many rows of all such tables of a database are kept.
const mostParents = 20_000

// beside returns the parents that a link of the stream leads to, and where their keys are in a row. They are
// nil if the database has to find them, as where it compares keys in its own way.
func (s *stream) beside(ctx context.Context, n int, r reference, join string) (*parents, int) {
	whole := func(c *column) bool {
		return c != nil && c.class == classNumber && strings.Contains(c.declared, "int")
	}
	pos, has := s.positions[r.columns[0]]
	plain := " LEFT JOIN " + s.d.kind.quote(r.parent) + " AS " + parentAlias(n) + " ON "
	if s.d.kind == sqlite || !has || len(r.columns) != 1 || s.set[r.columns[0]] != "" ||
		s.listed(r, "c") != "" || !strings.HasPrefix(join, plain) || !whole(s.table.column(r.columns[0])) ||
		!whole(s.d.tables[r.parent].column(r.targets[0])) {
		return nil, pos
	}
	return readParents(ctx, s.d, r), pos
}

// readParents reads the parents of a reference, unless they were read before. They are nil if there are too
// many, or if two have one key: the database would return a row beside each of them.
func readParents(ctx context.Context, d *database, r reference) *parents {
	place := r.parent + "\x00" + r.targets[0]
	if known, asked := d.held[place]; asked {
		return known
	}
	room, t := mostParents, d.tables[r.parent]
	for _, known := range d.held {
		if known != nil {
			room -= len(known.places)
		}
	}
	list := []string{d.expression("p", t.column(r.targets[0]))}
	for _, name := range r.natural {
		list = append(list, d.expression("p", t.column(name)))
	}
	all, rows := &parents{places: map[int64]int{}}, 0
	d.steadily(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+d.kind.quote(r.parent)+" AS p LIMIT "+
		strconv.Itoa(max(room, 0)+1), func(values []any) {
		if key, whole := wholeNumber(values[0]); whole {
			all.places[key] = len(all.values)
			all.values = append(all.values, owned(values[1:])...)
		} else if values[0] == nil { // to which nothing refers
			rows--
		}
		rows++
	})
	if rows > room || rows != len(all.places) {
		all = nil
	}
	if d.held == nil {
		d.held = map[string]*parents{}
	}
	d.held[place] = all
	return all
}

// put writes beside a row whether its parent is there, and what is known of that.
func (p *parents) put(row []any, key any) {
	place, there := 0, false
	if n, whole := wholeNumber(key); whole {
		place, there = p.places[n]
	}
	if !there {
		row[0] = "0"
		clear(row[1:])
		return
	}
	row[0] = "1"
	copy(row[1:], p.values[place:])
}

// wholeNumber returns the number that a driver has returned, if 64 bits can hold it.
func wholeNumber(v any) (int64, bool) {
	if n, is := v.(int64); is || v == nil {
		return n, is
	}
	n, err := strconv.ParseInt(textOf(v), 10, 64)
	return n, err == nil
}
