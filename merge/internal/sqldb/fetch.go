package sqldb

import "bytes"

// cell takes one value from a driver. A sql.Scanner sees the driver's own memory, so that a text becomes a
// string without a copy in between.
type cell struct {
	into *any
	text bool // bytes become a string
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

// slab allocates the slices of many rows in one piece.
type slab struct{ free []any }

// slabRows is how many rows share one allocation.
const slabRows = 64

func (s *slab) take(n int) []any {
	if len(s.free) < n {
		s.free = make([]any, n*slabRows)
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}
