package sqldb

import (
	"cmp"
	"context"
	"errors"
	"strconv"
)

// Asker asks databases and keeps the first error. After an error it asks nothing more, and its answers are
// empty. So the functions that judge the answers need not look at errors. Whoever made the Asker looks at Err
// before using what was found.
type Asker struct {
	Ctx context.Context // of all questions
	Err error           // the first one
}

// NewAsker returns an Asker that asks until a context ends.
func NewAsker(ctx context.Context) *Asker { return &Asker{Ctx: ctx} }

// Rows reads a whole result as text. NULL becomes "".
func (a *Asker) Rows(d *DB, s *Statement) (all [][]string) {
	if a.Err == nil {
		all, a.Err = d.Strings(a.Ctx, s)
	}
	return all
}

// Row reads the one row of a result, which has so many columns.
func (a *Asker) Row(d *DB, columns int, s *Statement) []string {
	if rows := a.Rows(d, s); a.Err == nil {
		return rows[0]
	}
	return make([]string, columns)
}

// Numbers reads the whole numbers of the one row of a result, which has so many columns.
func (a *Asker) Numbers(d *DB, columns int, s *Statement) []int64 {
	all := make([]int64, columns)
	for i, text := range a.Row(d, columns, s) {
		n, err := strconv.ParseInt(text, 10, 64)
		if all[i] = n; err != nil && text != "" {
			a.Fail(err)
		}
	}
	return all
}

// Number reads the one whole number that a result consists of.
func (a *Asker) Number(d *DB, s *Statement) (n int64) {
	if a.Err == nil {
		n, a.Err = d.Number(a.Ctx, s)
	}
	return n
}

// Count returns how many rows the rest of a statement selects, from its FROM on.
func (a *Asker) Count(d *DB, from ...string) (n int64) {
	if a.Err == nil {
		n, a.Err = d.Count(a.Ctx, from...)
	}
	return n
}

// Any reports whether the rest of a statement selects a row, from its FROM on.
func (a *Asker) Any(d *DB, from ...string) (found bool) {
	if a.Err == nil {
		found, a.Err = d.Any(a.Ctx, from...)
	}
	return found
}

// Each calls fn for every row of a result, until it returns false.
func (a *Asker) Each(d *DB, s *Statement, fn func(values []any) bool) { a.fetch(d, s, Fetch{}, fn) }

// EachSteady is Each for a statement that returns its rows without long pauses. See [Fetch].
func (a *Asker) EachSteady(d *DB, s *Statement, fn func(values []any) bool) {
	a.fetch(d, s, Fetch{Steady: true}, fn)
}

func (a *Asker) fetch(d *DB, s *Statement, f Fetch, fn func(values []any) bool) {
	if a.Err != nil {
		return
	}
	enough := errors.New("enough")
	err := d.Fetch(a.Ctx, s, f, func(values []any) error {
		if fn(values) && a.Err == nil {
			return nil
		}
		return enough
	})
	if !errors.Is(err, enough) {
		a.Fail(err)
	}
}

// Refuses reports whether a database refuses a statement, which is no error. That it answers nothing is one.
func (a *Asker) Refuses(d *DB, s *Statement) bool {
	_, err := d.Strings(a.Ctx, s)
	if err != nil {
		_, err := d.Strings(a.Ctx, d.SQL("SELECT 1"))
		a.Fail(err)
	}
	return err != nil
}

// Fail notes an error, unless there was one before.
func (a *Asker) Fail(err error) { a.Err = cmp.Or(a.Err, err) }
