package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// reader reads the rows of a feed, in the order of the primary key, a chunk at a time.
type reader struct {
	m     *Merge
	feed  *feed
	size  int
	where string // one more condition
	after []any  // the key of the last row that was read, as the source has it
	ended bool
	// before is how many rows the chunk before had: most often this one has as many.
	before int
}

// row is a row on its way: the values for the columns of the feed.
type row struct {
	values []any
	key    []any // as the source has it
}

// next reads the next chunk. It is empty at the end.
func (r *reader) next(ctx context.Context) ([]row, error) {
	if r.ended {
		return nil, nil
	}
	source := r.m.servers[r.feed.server].database
	s := r.m.selection(r.feed.server)
	list, keys := r.list(s)
	q := newStatement(source.kind, "SELECT ", strings.Join(list, ", "))
	s.from(q, r.feed, r.where)
	keyed := len(r.feed.key) > 0
	if keyed {
		s.behind(q, r.feed, r.after, ">")
	}
	s.order(q, r.feed)
	q.add(" LIMIT ", strconv.Itoa(r.size))
	read := int64(0)
	if !keyed && r.after != nil { // without a key there is nothing but to count: slow, but exact
		read, _ = r.after[0].(int64)
		q.add(" OFFSET ", strconv.FormatInt(read, 10))
	}
	rows := make([]row, 0, max(r.before, min(r.size, 1024)))
	// The key has its place behind the values.
	room := max(1, len(keys))
	err := source.fetch(ctx, q, r.texts(list), room, r.steady(s), func(values []any) error {
		n, behind := len(r.feed.pairs), len(values)-room
		key := values[behind:]
		if read++; !keyed {
			key[0] = read
		}
		for i, at := range keys {
			key[i] = cursorOf(values[at], r.feed.pairs[r.feed.key[i]].from)
		}
		for i, p := range r.feed.pairs {
			var err error
			if values[i], err = r.feed.value(values[i], p); err != nil {
				return fmt.Errorf("%w: %s: table %s, row %s: %w", ErrRow, source.name, r.feed.from.name,
					keyText(key), err)
			}
		}
		rows = append(rows, row{values: values[:n:n], key: key})
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.before = len(rows)
	if r.ended = len(rows) < r.size; len(rows) > 0 {
		// A copy, as the memory of the key is that of other rows too.
		r.after = slices.Clone(rows[len(rows)-1].key)
	}
	return rows, nil
}

// list is what to select: the columns, and those of the key that are not among them as they are. It also
// tells where the key is.
func (r *reader) list(s selection) (list []string, keys []int) {
	list = s.expressions(r.feed, false)
	for _, at := range r.feed.key {
		expression := s.kind.readExpression(r.feed.pairs[at].from)
		if list[at] != expression { // what is copied is not always what the source has
			list = append(list, expression)
			at = len(list) - 1
		}
		keys = append(keys, at)
	}
	return list, keys
}

// texts tells of which columns bytes are texts. Elsewhere the difference matters.
func (r *reader) texts(list []string) []bool {
	texts := make([]bool, len(list))
	for i, p := range r.feed.pairs {
		texts[i] = !r.feed.raw && !slices.ContainsFunc([]family{familyBytes, familyOther}, func(f family) bool {
			return p.from.family == f || p.to.family == f
		})
	}
	return texts
}

// steady tells whether the next row is always at hand: the database goes along the key and leaves nothing
// out.
func (r *reader) steady(s selection) bool {
	return len(r.feed.key) > 0 && r.where == "" && r.feed.work.plan.Orphans != "null" &&
		s.kept(r.feed.work, "s") == ""
}

// cursorOf makes of a value of the key what can be bound again.
func cursorOf(v any, c *column) any {
	if c.family == familyBytes {
		return v
	}
	switch v := v.(type) {
	case int64, uint64, float64, nil:
		return v
	case int32:
		return int64(v)
	}
	if c.family == familyInt {
		if n, err := integerOf(v); err == nil {
			return n
		}
	}
	return textOf(v)
}

// value makes of what a driver read what goes on its way.
func (f *feed) value(v any, p pair) (any, error) {
	if !f.raw || p.from.family == p.to.family {
		return canonical(v, p.to, f.raw)
	}
	v, err := canonical(v, p.to, false)
	return SQLite.adapt(v, p.to, false), err
}
