package merge

import (
	"bytes"
	"context"
	"errors"
)

// cell takes one value from a driver. It is an sql.Scanner, because that sees the memory of the driver: a
// text becomes a string at once, without a copy of its bytes in between.
type cell struct {
	into *any
	text bool // bytes are a text
}

// Scan takes the value.
func (c *cell) Scan(v any) error {
	b, ok := v.([]byte)
	switch {
	case !ok:
		*c.into = v
	case b == nil:
		*c.into = nil
	case c.text:
		*c.into = string(b)
	default:
		*c.into = bytes.Clone(b)
	}
	return nil
}

// slab hands out the slices of rows, many from one piece of memory.
type slab struct{ free []any }

// slabRows is for how many rows a piece is.
const slabRows = 64

func (s *slab) take(n int) []any {
	if len(s.free) < n {
		s.free = make([]any, n*slabRows)
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}

// fetch calls fn for every row of an answer, with as many values as texts has, and room for more behind them.
// They are fn's to keep.
//
// Where an answer comes row by row, steady tells so: then it is enough to look at the context between rows.
// The usual driver of SQLite starts a goroutine for every row of a statement whose context can end.
func (d *database) fetch(
	ctx context.Context, s *statement, texts []bool, more int, steady bool, fn func(values []any) error,
) (err error) {
	asked := ctx
	if steady && d.kind == SQLite {
		asked = context.WithoutCancel(ctx)
	}
	rows, err := d.conn.QueryContext(asked, s.String(), s.args...)
	if err != nil {
		return d.failed(err)
	}
	defer func() { err = errors.Join(err, d.failed(rows.Close())) }()
	cells := make([]cell, len(texts))
	into := make([]any, len(texts))
	for i := range cells {
		cells[i].text, into[i] = texts[i], &cells[i]
	}
	var memory slab
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		values := memory.take(len(texts) + more)
		for i := range cells {
			cells[i].into = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return d.failed(err)
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return d.failed(rows.Err())
}
