package snowflakeplugin

import (
	"context"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// mostDifferences is how many of them an error names.
const mostDifferences = 10

// Verify compares every row that is to be moved with its copy, column by column. It changes nothing.
// While something writes, copies may lag behind, and are reported.
//
// It returns a [*DifferenceError] if they differ, or what a database says.
func (d *Doubling) Verify(ctx context.Context) error { return d.compare(ctx, "verify", nil) }

// repair makes the copies equal to the rows.
func (d *Doubling) repair(ctx context.Context) error {
	return d.compare(ctx, "repair", func(m *doublingMove, p pair) error { return m.mend(ctx, p) })
}

// pair is a row and its copy, either of which may be lacking.
type pair struct {
	id        int64
	row, copy reflect.Value
}

func (p pair) what() string {
	switch {
	case !p.copy.IsValid():
		return "missing"
	case !p.row.IsValid():
		return "superfluous"
	default:
		return "changed"
	}
}

// compare looks for pairs that differ, and hands them to mend; without mend they are an error.
func (d *Doubling) compare(ctx context.Context, step string, mend func(*doublingMove, pair) error) error {
	found := &DifferenceError{}
	for _, move := range d.moves() {
		var rows int64
		differs := func(p pair) error {
			if mend != nil {
				return mend(&move, p)
			}
			found.Rows++
			if len(found.First) < mostDifferences {
				found.First = append(found.First, Difference{move.ToTable, ID(p.id), p.what()})
			}
			return nil
		}
		err := move.walk(ctx, func(p pair) error {
			if rows++; rows%int64(d.chunk) == 0 {
				d.told(DoublingProgress{Step: step, Table: move.ToTable, Rows: rows})
			}
			if p.what() == "changed" && move.same(ctx, p) {
				return nil
			}
			return differs(p)
		})
		if err != nil {
			return move.failed(step, err)
		}
		d.told(DoublingProgress{Step: step, Table: move.ToTable, Rows: rows})
	}
	if found.Rows > 0 {
		return found
	}
	return nil
}

// same compares the columns of a pair.
func (m *doublingMove) same(ctx context.Context, p pair) bool {
	finest := m.finest()
	for _, field := range m.columns() {
		a, _ := field.ValueOf(ctx, p.row)
		b, _ := field.ValueOf(ctx, p.copy)
		if !sameValue(a, b, finest) {
			return false
		}
	}
	return true
}

// walk goes through both tables in the order of the keys.
func (m *doublingMove) walk(ctx context.Context, visit func(pair) error) error {
	old := m.stream(func() *gorm.DB { return m.leaving(ctx) })
	fresh := m.stream(func() *gorm.DB { return m.arrived(ctx) })
	for {
		row, err := old.peek(ctx)
		if err != nil {
			return err
		}
		duplicate, err := fresh.peek(ctx)
		if err != nil {
			return err
		}
		if !row.IsValid() && !duplicate.IsValid() {
			return nil
		}
		p := pair{id: m.lesser(ctx, row, duplicate)}
		if row.IsValid() && m.keyOf(ctx, row) == p.id {
			p.row = old.take()
		}
		if duplicate.IsValid() && m.keyOf(ctx, duplicate) == p.id {
			p.copy = fresh.take()
		}
		if err := visit(p); err != nil {
			return err
		}
	}
}

func (m *doublingMove) lesser(ctx context.Context, a, b reflect.Value) int64 {
	switch {
	case !a.IsValid():
		return m.keyOf(ctx, b)
	case !b.IsValid():
		return m.keyOf(ctx, a)
	default:
		return min(m.keyOf(ctx, a), m.keyOf(ctx, b))
	}
}

// rowStream reads a table chunk by chunk.
type rowStream struct {
	m     *doublingMove
	from  func() *gorm.DB
	rows  reflect.Value
	next  int
	last  int64
	ended bool
}

func (m *doublingMove) stream(from func() *gorm.DB) *rowStream { return &rowStream{m: m, from: from} }

// peek returns the next row, or the zero Value at the end.
func (s *rowStream) peek(ctx context.Context) (reflect.Value, error) {
	if s.rows.IsValid() && s.next < s.rows.Len() {
		return s.rows.Index(s.next), nil
	}
	if s.ended {
		return reflect.Value{}, nil
	}
	rows, err := s.m.read(s.from(), s.last, s.m.d.chunk)
	if err != nil {
		return reflect.Value{}, err
	}
	s.rows, s.next, s.ended = rows, 0, rows.Len() < s.m.d.chunk
	if rows.Len() == 0 {
		return reflect.Value{}, nil
	}
	s.last = s.m.keyOf(ctx, rows.Index(rows.Len()-1))
	return rows.Index(0), nil
}

func (s *rowStream) take() reflect.Value {
	row := s.rows.Index(s.next)
	s.next++
	return row
}

// mend makes a copy equal to its row.
func (m *doublingMove) mend(ctx context.Context, p pair) error {
	return m.target(ctx).Transaction(func(tx *gorm.DB) error {
		if p.copy.IsValid() {
			key := clause.Eq{Column: clause.Column{Name: m.model.key.DBName}, Value: p.id}
			gone := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(m.ToTable).Unscoped().Where(key)
			if err := gone.Delete(m.model.value).Error; err != nil {
				return err
			}
		}
		if !p.row.IsValid() {
			return nil
		}
		rows := reflect.MakeSlice(reflect.SliceOf(m.model.base.ModelType), 0, 1)
		return m.insert(tx, reflect.Append(rows, p.row))
	})
}
