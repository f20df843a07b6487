package router

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
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
	row, copy *rawRow
}

// what names the difference. A complete pair may also be equal.
func (p pair) what() string {
	switch {
	case p.copy == nil:
		return "missing"
	case p.row == nil:
		return "superfluous"
	default:
		return "changed"
	}
}

// compare passes pairs that differ to repair. If that is nil, differences are an error.
func (d *Resharding) compare(ctx context.Context, step string, repair func(*tableMove, pair) error) error {
	found := &DifferenceError{}
	for _, move := range d.moves {
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
			if p.what() == "changed" && p.row.same(*p.copy) {
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

// walk visits the rows of both tables in the order of their keys.
func (m *tableMove) walk(ctx context.Context, visit func(pair) error) error {
	source := &rowStream{m: m, database: m.FromDatabase, table: m.FromTable}
	target := &rowStream{m: m, database: m.ToDatabase, table: m.ToTable}
	for {
		row, err := source.peek(ctx)
		if err != nil {
			return err
		}
		duplicate, err := target.peek(ctx)
		if err != nil {
			return err
		}
		var p pair
		switch {
		case row == nil && duplicate == nil:
			return nil
		case duplicate == nil || row != nil && row.id <= duplicate.id:
			p = pair{id: row.id, row: row}
		default:
			p = pair{id: duplicate.id}
		}
		if p.row != nil {
			source.next++
		}
		if duplicate != nil && duplicate.id == p.id {
			p.copy = duplicate
			target.next++
		}
		if err := visit(p); err != nil {
			return err
		}
	}
}

// rowStream reads a table chunk by chunk.
type rowStream struct {
	m        *tableMove
	database int
	table    string
	rows     []rawRow // the current chunk
	next     int      // index into rows
	last     int64    // the last key of the chunk
	ended    bool     // there are no more chunks
}

// peek returns the next row without taking it, or nil at the end.
func (s *rowStream) peek(ctx context.Context) (*rawRow, error) {
	if s.next == len(s.rows) && !s.ended {
		rows, err := s.m.readFrom(ctx, s.m.pool(s.database), s.table, s.last, s.m.d.chunk)
		if err != nil {
			return nil, err
		}
		s.rows, s.next, s.ended = rows, 0, len(rows) < s.m.d.chunk
		if len(rows) > 0 {
			s.last = rows[len(rows)-1].id
		}
	}
	if s.next == len(s.rows) {
		return nil, nil
	}
	return &s.rows[s.next], nil
}

// repair makes one copy equal to its row.
func (m *tableMove) repair(ctx context.Context, p pair) error {
	return m.target(ctx).Transaction(func(tx *gorm.DB) error {
		if err := m.lockMap(tx); err != nil {
			return err
		}
		if p.copy != nil {
			key := clause.Eq{Column: clause.Column{Name: m.model.key.DBName}, Value: p.id}
			gone := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(m.ToTable).Unscoped().Where(key)
			if err := gone.Delete(m.model.value).Error; err != nil {
				return err
			}
		}
		if p.row == nil {
			return nil
		}
		return m.insert(ctx, tx.Statement.ConnPool, p.id-1, []rawRow{*p.row})
	})
}
