package fill

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Texter is an optional ability of a [Source]: its numbers have a text of their own in fields of kind
// string. Different numbers have different texts, and one number always has the same.
type Texter interface{ Text(number int64) string }

// Liker is an optional ability of a [Source]: it can choose the shard of a number. See
// generator.Generator.NextLike.
type Liker interface {
	NextLike(ctx context.Context, key int64) (int64, error)
}

// onner is the ability of the generator to choose one of any number of shards.
type onner interface {
	NextOn(ctx context.Context, shard, shards int) (int64, error)
}

// from is a source that tags name.
type from struct {
	name   string
	source Source
	texter Texter // nil if the numbers have no text of their own
	liker  Liker  // nil if the source cannot choose shards
}

func newFrom(name string, source Source) *from {
	f := &from{name: name, source: source}
	f.texter, _ = source.(Texter)
	f.liker, _ = source.(Liker)
	return f
}

// hasText reports whether the numbers of the column are kept as texts of the source.
func (c *column) hasText() bool {
	return c.from != nil && c.from.texter != nil && (c.kind == kindString || c.text)
}

// textOf returns the text of an ID in a field that holds text.
func (c *column) textOf(id int64) string {
	if c.hasText() {
		return c.from.texter.Text(id)
	}
	return strconv.FormatInt(id, 10)
}

func (c *column) tooLarge(id int64) error {
	return fmt.Errorf("the number %d does not fit %v: give the field a larger type", id, c.value)
}

// fits returns an error unless a number of a named source fits the declared size of the field.
func (c *column) fits(id int64) error {
	size := c.field.Size
	switch {
	case size <= 0:
	case c.kind == kindInt && size < 64 && id >= 1<<(size-1), c.kind == kindUint && size < 64 && id >= 1<<size:
		return fmt.Errorf("the number %d does not fit %d bits (size:%d): give the field a larger type and "+
			"size",
			id, size, size)
	case c.kind == kindString || c.text:
		if text := c.textOf(id); utf8.RuneCountInString(text) > size {
			return fmt.Errorf("the text %q of the number %d does not fit size:%d: give the field a larger "+
				"size",
				text, id, size)
		}
	case c.kind == kindBytes && size < binaryLen:
		return fmt.Errorf("a number needs %d bytes, and the field has size:%d", binaryLen, size)
	}
	return nil
}

// made is what one source has made for a statement.
type made struct {
	ids   []int64          // in ascending order
	texts map[string]int64 // nil if no column keeps texts
}

// madeBy has what was made, by the name of the source. A nil map has nothing.
type madeBy map[string]made

// and returns what is in either.
func (m madeBy) and(other madeBy) madeBy {
	for name, more := range other {
		if m == nil {
			m = madeBy{}
		}
		all := made{ids: append(slices.Clone(m[name].ids), more.ids...), texts: map[string]int64{}}
		slices.Sort(all.ids)
		for _, texts := range []map[string]int64{m[name].texts, more.texts} {
			for text, id := range texts {
				all.texts[text] = id
			}
		}
		m[name] = all
	}
	return m
}

// get returns the ID in a cell of a frame; ok is false if there is none. It is 0 for a text that is not
// among those that were made.
func (m madeBy) get(f *frame, i, c int) (id int64, ok bool) {
	column := f.plan.columns[c]
	if !column.hasText() {
		return f.rows.get(i, c)
	}
	value, known := f.rows.value(f.context(), i, column.field)
	if !known {
		return 0, false
	}
	text, ok := textIn(value)
	return m[column.from.name].texts[text], ok && text != ""
}

// textIn returns the text that a field or a map holds.
func textIn(value any) (string, bool) {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer {
		return "", false
	}
	if text, ok := ValueOf(v).(string); ok {
		return text, true
	}
	return v.String(), v.Kind() == reflect.String
}

// numberOf reads a number of a named source in a map, which may be an integer of any size.
func numberOf(value any) (int64, bool) {
	if id, ok := IDOf(value); ok {
		return id, true
	}
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	}
	return 0, false
}

// note remembers numbers that were made for a column of a named source.
func (f *frame) note(column *column, ids []int64) {
	fresh := made{ids: slices.Sorted(slices.Values(ids))}
	if column.hasText() {
		fresh.texts = make(map[string]int64, len(ids))
		for _, id := range ids {
			fresh.texts[column.textOf(id)] = id
		}
	}
	f.named = f.named.and(madeBy{column.from.name: fresh})
}

// assignNamed fills the empty cells of the columns whose numbers come from named sources, with one
// reservation for each source. It returns these columns.
func assignNamed(fr *frame, numbers *Numbers, columns columnMask) (named columnMask, err error) {
	for c, first := range fr.plan.columns {
		if first.from == nil || !columns.has(c) || named.has(c) {
			continue
		}
		var same columnMask
		for d, column := range fr.plan.columns {
			if column.from != nil && column.from.name == first.from.name && columns.has(d) {
				same |= 1 << d
			}
		}
		named |= same
		empty, found := fr.countVacant(same)
		if empty == 0 {
			continue
		}
		ids := make([]int64, empty)
		if err := numbers.takeFrom(fr.context(), first.from, ids); err != nil {
			return named, fr.plan.noID(found, err)
		}
		if err := fr.placeNamed(found, ids); err != nil {
			return named, err
		}
	}
	return named, nil
}

// placeNamed writes the numbers of one source into the empty cells of its columns. Nothing is written
// unless all of them fit.
func (f *frame) placeNamed(columns columnMask, ids []int64) error {
	rest := ids
	for c, column := range f.plan.columns {
		if !columns.has(c) {
			continue
		}
		n := f.rows.vacant(c)
		for _, id := range rest[:n] {
			if err := column.fits(id); err != nil {
				return f.noFit(column, err)
			}
		}
		f.note(column, rest[:n])
		rest = rest[n:]
	}
	return f.place(columns, ids)
}

// takeFrom sets all elements of ids to new numbers of a named source.
func (n *Numbers) takeFrom(ctx context.Context, from *from, ids []int64) error {
	ctx = orBackground(ctx)
	if n.closed.Load() {
		return errs.ErrClosed
	}
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	if err := from.source.Fill(ctx, ids); err != nil {
		return fmt.Errorf("source %q: %w", from.name, err)
	}
	for _, id := range ids {
		if id <= 0 {
			return fmt.Errorf("%w: the source %q returned %d where a positive number is "+
				"needed", errs.ErrSource,
				from.name, id)
		}
	}
	return nil
}

// nextFrom returns one new number of a named source on a shard of a router.
func (n *Numbers) nextFrom(ctx context.Context, from *from, shard *Shard) (id int64, err error) {
	ctx = orBackground(ctx)
	if n.closed.Load() {
		return 0, errs.ErrClosed
	}
	switch source := from.source.(type) {
	case onner:
		id, err = source.NextOn(ctx, shard.number, shard.of)
	case Liker:
		id, err = source.NextLike(ctx, int64(shard.number))
	default:
		return 0, fmt.Errorf("%w on shard %d: the source %q cannot choose shards: it has no method NextLike",
			errs.ErrSource, shard.number, from.name)
	}
	if err != nil {
		return 0, fmt.Errorf("source %q: %w", from.name, err)
	}
	return id, nil
}
