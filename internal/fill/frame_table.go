package fill

import (
	"hash/maphash"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// frameTable finds the frame of a statement. Applications see the context and the settings of a
// statement and may replace them, so the frame is in neither. Most frames stand in a table of the
// plugin, which takes no allocation. If another statement occupies the place, the frame stands among
// the clauses of its statement, where GORM copies it now and then but never builds it.
//
// A panic in a hook can leave a frame behind. It then keeps its place and its statement, and there
// are only so many places. A frameTable needs a seed.
type frameTable struct {
	seed   maphash.Seed
	places [256]atomic.Pointer[frame]
}

// frameClause is the name of a frame among the clauses of a statement.
const frameClause = PluginName + ":frame"

// Build makes a frame a clause. GORM builds only the clauses that it knows, and so never this one.
func (*frame) Build(clause.Builder) {}

// place returns where the frame of a statement stands unless the place is occupied.
func (t *frameTable) place(stmt *gorm.Statement) *atomic.Pointer[frame] {
	return &t.places[maphash.Comparable(t.seed, stmt)%uint64(len(t.places))]
}

// of returns the frame of this very statement, or nil.
func (t *frameTable) of(stmt *gorm.Statement) *frame {
	if f := t.place(stmt).Load(); f != nil && f.stmt == stmt {
		return f
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
	f := &frame{stmt: stmt, plan: plan}
	place := t.place(stmt)
	old := place.Load()
	if (old == nil || old.stmt == stmt) && place.CompareAndSwap(old, f) {
		return f
	}
	if stmt.Clauses == nil {
		stmt.Clauses = map[string]clause.Clause{}
	}
	stmt.Clauses[frameClause] = clause.Clause{Expression: f}
	return f
}

// remove forgets a frame whose statement is over.
func (t *frameTable) remove(f *frame) {
	if !t.place(f.stmt).CompareAndSwap(f, nil) {
		delete(f.stmt.Clauses, frameClause)
	}
}
