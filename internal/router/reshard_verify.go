package router

import (
	"bytes"
	"context"
	"reflect"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// maxDifferences is how many differences an error names.
const maxDifferences = 10

// Verify compares all rows that move with their copies.
func (d *Resharding) Verify(ctx context.Context) error { return d.compare(ctx, "verify", nil) }

// repair makes all copies equal to their rows.
func (d *Resharding) repair(ctx context.Context) error {
	return d.compare(ctx, "repair", func(m *tableMove, p pair) error { return m.repair(ctx, p) })
}

// pair is a row and its copy. One of them may be missing.
type pair struct {
	id        int64
	row, copy reflect.Value
}

// what names the difference. A complete pair may also be equal.
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

// compare passes pairs that differ to repair. If that is nil, differences are an error.
func (d *Resharding) compare(ctx context.Context, step string, repair func(*tableMove, pair) error) error {
	found := &DifferenceError{}
	for _, move := range d.moves() {
		var rows int64
		differs := func(p pair) error {
			if repair != nil {
				return repair(&move, p)
			}
			found.Rows++
			if len(found.First) < maxDifferences {
				found.First = append(found.First, Difference{move.ToTable, p.id, p.what()})
			}
			return nil
		}
		err := move.walk(ctx, func(p pair) error {
			if rows++; rows%int64(d.chunk) == 0 {
				d.onProgress(ReshardProgress{Step: step, Table: move.ToTable, Rows: rows})
			}
			if p.what() == "changed" && move.same(ctx, p) {
				return nil
			}
			return differs(p)
		})
		if err != nil {
			return move.failed(step, err)
		}
		d.onProgress(ReshardProgress{Step: step, Table: move.ToTable, Rows: rows})
	}
	if found.Rows > 0 {
		return found
	}
	return nil
}

// same compares the columns of a pair.
func (m *tableMove) same(ctx context.Context, p pair) bool {
	for _, field := range m.columns() {
		a, _ := field.ValueOf(ctx, p.row)
		b, _ := field.ValueOf(ctx, p.copy)
		if !sameValue(a, b) {
			return false
		}
	}
	return true
}

// walk visits the rows of both tables in the order of their keys.
func (m *tableMove) walk(ctx context.Context, visit func(pair) error) error {
	source := m.stream(func() *gorm.DB { return m.sourceRows(ctx) })
	target := m.stream(func() *gorm.DB { return m.targetRows(ctx) })
	for {
		row, err := source.peek(ctx)
		if err != nil {
			return err
		}
		duplicate, err := target.peek(ctx)
		if err != nil {
			return err
		}
		if !row.IsValid() && !duplicate.IsValid() {
			return nil
		}
		p := pair{id: m.lesser(ctx, row, duplicate)}
		if row.IsValid() && m.model.idOf(ctx, row) == p.id {
			p.row = source.take()
		}
		if duplicate.IsValid() && m.model.idOf(ctx, duplicate) == p.id {
			p.copy = target.take()
		}
		if err := visit(p); err != nil {
			return err
		}
	}
}

// lesser returns the lower one of the keys of two rows, one of which may be missing.
func (m *tableMove) lesser(ctx context.Context, a, b reflect.Value) int64 {
	switch {
	case !a.IsValid():
		return m.model.idOf(ctx, b)
	case !b.IsValid():
		return m.model.idOf(ctx, a)
	default:
		return min(m.model.idOf(ctx, a), m.model.idOf(ctx, b))
	}
}

// rowStream reads a table chunk by chunk.
type rowStream struct {
	m     *tableMove
	from  func() *gorm.DB
	rows  reflect.Value // the current chunk
	next  int           // index into rows
	last  int64         // the last key of the chunk
	ended bool          // there are no more chunks
}

func (m *tableMove) stream(from func() *gorm.DB) *rowStream { return &rowStream{m: m, from: from} }

// peek returns the next row without taking it, or the zero Value at the end.
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
	s.last = s.m.model.idOf(ctx, rows.Index(rows.Len()-1))
	return rows.Index(0), nil
}

// take returns the row that peek has returned, and advances.
func (s *rowStream) take() reflect.Value {
	row := s.rows.Index(s.next)
	s.next++
	return row
}

// repair makes one copy equal to its row.
func (m *tableMove) repair(ctx context.Context, p pair) error {
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

// sameValue compares two values of a column.
func sameValue(a, b any) bool {
	left, right := stored(a), stored(b)
	if t, ok := left.(time.Time); ok {
		u, ok := right.(time.Time)
		return ok && t.Equal(u)
	}
	if l, ok := left.([]byte); ok {
		r, ok := right.([]byte)
		return ok && bytes.Equal(l, r)
	}
	return reflect.DeepEqual(left, right)
}

// stored returns a value as it is passed to a driver.
func stored(value any) any {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		if _, isValuer := v.Interface().(interface{ Value() (any, error) }); isValuer {
			break
		}
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer {
		return nil
	}
	if plain := fill.ValueOf(v); plain != nil {
		return plain
	}
	if fill.IsNull(v.Interface()) {
		return nil
	}
	return v.Interface()
}
