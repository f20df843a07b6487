package fill

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// frameTable finds the frame of a statement. Applications see the context and the settings of a
// statement and may replace them, so the frame is in neither. Most frames stand in a table of the
// plugin, and serve one statement after another, so they take no allocation. If another statement
// occupies the place, the frame stands among the clauses of its statement, where GORM copies it now and
// then but never builds it.
//
// A panic in a hook can leave a frame behind. It then keeps its place and its statement, and there
// are only so many places.
type frameTable struct {
	places [1 << placeBits]place
	// spilled counts the frames among clauses. As long as there are none, nobody looks there.
	spilled atomic.Int64
	spare   sync.Pool // empty frames
}

// placeBits is the binary logarithm of the number of places.
const placeBits = 8

// place has what is known of one statement at a time: its frame, or its one cell.
type place struct {
	stmt atomic.Pointer[gorm.Statement] // nil if the place is free

	// Only whoever runs that statement reads and writes these.
	frame *frame // nil if there is one cell
	one   oneCell
	// config is as in a frame. With it a place fills a line of the cache, so that statements do not share one.
	config *gorm.Config
}

// frameClause is the name of a frame among the clauses of a statement.
const frameClause = PluginName + ":frame"

// Build makes a frame a clause. GORM builds only the clauses that it knows, and so never this one.
func (*frame) Build(clause.Builder) {}

// place returns where the frame of a statement stands unless the place is occupied.
func (t *frameTable) place(stmt *gorm.Statement) *place { return &t.places[spread(stmt, placeBits)] }

// spread returns a number of so many bits for what a pointer leads to. Its address decides, because Go does
// not move what lies on the heap; hash/maphash relies on that as well. Every create asks several times, so
// the time of a better hash would be felt.
func spread[T any](pointer *T, bits int) uint64 {
	const fibonacci = 0x9E3779B97F4A7C15        // 2^64 by the golden ratio: neighbors come to lie far apart
	address := uintptr(unsafe.Pointer(pointer)) // reflect tells it as well, by a call
	return uint64(address) * fibonacci >> (64 - bits)
}

// oneCellOf returns the place of a statement that has one cell, or nil.
func (t *frameTable) oneCellOf(stmt *gorm.Statement) *place {
	if p := t.place(stmt); p.stmt.Load() == stmt && p.frame == nil {
		return p
	}
	return nil
}

// of returns the frame of this very statement, or nil.
func (t *frameTable) of(stmt *gorm.Statement) *frame {
	if p := t.place(stmt); p.stmt.Load() == stmt {
		return p.frame
	}
	if t.spilled.Load() == 0 {
		return nil
	}
	// A statement that was cloned while it ran has the clause of the original.
	if f, ok := stmt.Clauses[frameClause].Expression.(*frame); ok && f.stmt == stmt {
		return f
	}
	return nil
}

// open makes the frame of a statement. If a panic ended the statement before, the new frame replaces
// the old one.
func (t *frameTable) open(stmt *gorm.Statement, plan *Plan) *frame {
	f := t.fresh(stmt, plan)
	if p := t.place(stmt); p.stmt.CompareAndSwap(nil, stmt) || p.stmt.Load() == stmt {
		p.frame, p.one = f, oneCell{}
		return f
	}
	if stmt.Clauses == nil {
		stmt.Clauses = map[string]clause.Clause{}
	}
	if t.of(stmt) == nil {
		t.spilled.Add(1)
	}
	stmt.Clauses[frameClause] = clause.Clause{Expression: f}
	return f
}

// fresh returns a frame that stands nowhere yet.
func (t *frameTable) fresh(stmt *gorm.Statement, plan *Plan) *frame {
	f, ok := t.spare.Get().(*frame)
	if !ok {
		f = &frame{}
	}
	f.stmt, f.plan = stmt, plan
	return f
}

// remove forgets a frame whose statement is over, and closes it.
func (t *frameTable) remove(f *frame) {
	f.close()
	if p := t.place(f.stmt); p.stmt.Load() == f.stmt {
		p.frame = nil
		p.stmt.Store(nil)
	} else {
		delete(f.stmt.Clauses, frameClause)
		t.spilled.Add(-1)
	}
	if f.below.known {
		return // other frames may still refer to this one
	}
	*f = frame{}
	t.spare.Put(f)
}
