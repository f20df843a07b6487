package merge

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// counted tells whether the primary key of a table is one whole number.
func (w *work) counted() bool {
	return len(w.to.primary) == 1 && w.to.column(w.to.primary[0]).family == familyInt
}

// findOffsets finds what is added to the keys of tables that are renumbered: for each server the sum of the
// greatest keys of those before it. It follows from the sources alone, which do not change, so that it is the
// same when a run goes on.
func (m *Merge) findOffsets(ctx context.Context) error {
	if m.offsets != nil {
		return nil
	}
	offsets := map[tableServer]int64{}
	for _, w := range m.order {
		if !w.plan.Renumber || !w.counted() {
			continue
		}
		sum := int64(0)
		for i, s := range m.servers {
			offsets[tableServer{w.name, s.Number}] = sum
			if w.feeds[i] == nil {
				continue
			}
			key := s.kind.quote(w.to.primary[0])
			greatest, err := s.number(ctx, newStatement(s.kind, "SELECT COALESCE(MAX(", key, "), 0) FROM ",
				s.kind.quote(w.name), " WHERE ", key, " > 0 AND ", key, " < ", strconv.FormatInt(m.plain, 10)))
			if err != nil {
				return fmt.Errorf("table %s cannot be renumbered: %w", w.name, err)
			}
			if sum > math.MaxInt64-greatest {
				return fmt.Errorf("%w: table %s cannot be renumbered: its keys are too large", ErrPlan, w.name)
			}
			sum += greatest
		}
		offsets[tableServer{w.name, -1}] = sum
	}
	m.offsets = offsets
	return nil
}

// overflow makes sure that the columns can hold the new numbers.
func (c *checking) overflow() {
	for _, w := range c.m.order {
		sum, renumbered := c.m.offsets[tableServer{w.name, -1}]
		if !renumbered {
			continue
		}
		columns := map[string]*column{w.name: w.to.column(w.to.primary[0])}
		for _, other := range c.m.order {
			for _, ref := range other.refs {
				if ref.parent == w.name && len(ref.columns) == 1 {
					columns[other.name] = other.to.column(ref.columns[0])
				}
			}
		}
		for name, col := range columns {
			bits := col.bits()
			if c.m.target.kind == SQLite {
				bits = 64
			}
			if limit := uint64(1) << max(bits-1, 0); bits > 0 && uint64(sum) >= limit {
				c.report.problem(Problem{Code: CodeTotal, Table: name, Column: col.name,
					Message: fmt.Sprintf("the keys of %s would go up to %d, which %s cannot hold", w.name, sum,
						col.declared),
					Remedy: "widen the column in the target"})
			}
		}
	}
}

// renumbered tells whether a key or a reference of a feed changes.
func (m *Merge) renumbered(f *feed) bool {
	number := m.servers[f.server].Number
	if m.offsets[tableServer{f.work.name, number}] != 0 {
		return true
	}
	for _, ref := range f.work.refs {
		if m.offsets[tableServer{ref.parent, number}] != 0 {
			return true
		}
	}
	return false
}

// renumber moves the keys of rows, and the references to keys that moved.
func (m *Merge) renumber(f *feed, rows []row) {
	if !m.renumbered(f) {
		return
	}
	number := m.servers[f.server].Number
	moves := map[int]tableServer{} // each column once, though it may be both
	for _, ref := range f.work.refs {
		if at := f.at(ref.columns[0]); at >= 0 && len(ref.columns) == 1 {
			moves[at] = tableServer{ref.parent, number}
		}
	}
	if f.work.plan.Renumber {
		moves[f.at(f.work.to.primary[0])] = tableServer{f.work.name, number}
	}
	for _, r := range rows {
		for at, of := range moves {
			if m.offsets[of] != 0 && r.values[at] != nil {
				r.values[at] = m.moved(of, r.values[at])
			}
		}
	}
}

// moved is the key that a row has in the target.
func (m *Merge) moved(of tableServer, key any) any {
	n, err := integerOf(key)
	id, ok := n.(int64)
	if offset := m.offsets[of]; err == nil && ok && id > 0 && id < m.plain && offset <= math.MaxInt64-id {
		return id + offset
	}
	return key
}
