package snowflakeplugin

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"gorm.io/gorm"
)

// frame remembers what the plugin did for one create statement, from the fill to the end. It is
// the statement's context meanwhile: so it reaches, at the price of one allocation, everything
// that GORM and hooks create below this statement, in whichever way they do.
type frame struct {
	context.Context // the statement's own

	stmt *gorm.Statement
	plan *plan
	rows rows       // nil when the destination is not the plugin's business
	ids  []int64    // generated, in the order of their making
	one  [1]int64   // backing of ids for a single one
	mask columnMask // the columns that ids went to

	structs structRows // backing of rows
	selects *[]string  // the caller's Selects, if the plugin replaced them
	upsert  *upsert    // what to reconcile, if anything
	settled bool       // the rows are in the database for good, whatever happens next
	nest    *nest      // nil if creates below this one need not be known
}

// nest is what a frame knows of the creates below it. Hooks may create rows on goroutines of
// their own, so it is guarded.
type nest struct {
	mu       sync.Mutex
	done     bool          // guarded by mu: the statement is over and adopts no more
	pool     gorm.ConnPool // guarded by mu: the transaction of the statement
	children []*frame      // guarded by mu: the frames of creates below, in that transaction
}

type frameKey struct{}

// Value returns the frame itself for its own key.
func (f *frame) Value(key any) any {
	if key == (frameKey{}) {
		return f
	}
	return f.Context.Value(key)
}

// frameOf returns the frame of this very statement, or nil.
func frameOf(stmt *gorm.Statement) *frame {
	f, ok := stmt.Context.(*frame)
	if !ok {
		// Tracing plugins wrap the context once more.
		if f, ok = stmt.Context.Value(frameKey{}).(*frame); !ok {
			return nil
		}
	}
	if f.stmt != stmt {
		return nil
	}
	return f
}

// newFrame makes the frame of a statement and hangs it below that of the create around it.
func newFrame(stmt *gorm.Statement, plan *plan) *frame {
	// A statement that a panic ended early may still have its old frame.
	if old, ok := stmt.Context.(*frame); ok && old.stmt == stmt {
		stmt.Context = old.Context
	}
	f := &frame{Context: stmt.Context, stmt: stmt, plan: plan}
	if plan.nests {
		f.nest = &nest{}
	}
	if parent, ok := stmt.Context.Value(frameKey{}).(*frame); ok {
		parent.adopt(f)
	}
	stmt.Context = f
	return f
}

// enter notes the transaction that the statement runs in.
func (f *frame) enter(pool gorm.ConnPool) {
	if f.nest == nil || !inTransaction(pool) || !reflect.TypeOf(pool).Comparable() {
		return
	}
	f.nest.mu.Lock()
	defer f.nest.mu.Unlock()
	f.nest.pool = pool
}

// adopt makes the fate of a create below this one part of it, if both are in one transaction:
// then the failure of this one undoes both. A hook may as well write through another connection.
func (f *frame) adopt(child *frame) {
	if f.nest == nil {
		return
	}
	f.nest.mu.Lock()
	defer f.nest.mu.Unlock()
	if !f.nest.done && f.nest.pool != nil && f.nest.pool == child.stmt.ConnPool {
		f.nest.children = append(f.nest.children, child)
	}
}

// inTransaction reports whether statements of the pool can still be rolled back.
func inTransaction(pool gorm.ConnPool) bool {
	_, is := pool.(gorm.TxCommitter)
	return is
}

// made reports whether id was generated for this statement.
func (f *frame) made(id int64) bool { return contains(f.ids, id) }

// contains reports whether an ID is among sorted ones.
func contains(ids []int64, id int64) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

// reset takes back every ID that was generated for this statement and those below it, so that
// no struct keeps an ID that is in no row: GORM would add it to the conditions of later queries,
// and they would find nothing. What a user or a hook set stays.
func (f *frame) reset() {
	frames := f.tree(nil)
	ids := f.ids
	if len(frames) > 1 {
		// An upsert may have met a row that another part of the tree had just made.
		ids = nil
		for _, frame := range frames {
			ids = append(ids, frame.ids...)
		}
		slices.Sort(ids)
	}
	for _, frame := range frames {
		frame.takeBack(ids)
	}
}

// tree appends this frame and all below it.
func (f *frame) tree(frames []*frame) []*frame {
	frames = append(frames, f)
	if f.nest == nil {
		return frames
	}
	f.nest.mu.Lock()
	defer f.nest.mu.Unlock()
	for _, child := range f.nest.children {
		frames = child.tree(frames)
	}
	return frames
}

// takeBack restores the cells that hold one of the IDs.
func (f *frame) takeBack(ids []int64) {
	if f.rows == nil || f.mask == 0 || f.settled {
		return
	}
	for i := range f.rows.count() {
		for c := range f.plan.columns {
			if id, ok := f.rows.get(i, c); ok && f.mask.has(c) && contains(ids, id) {
				f.rows.restore(i, c)
			}
		}
	}
}

// close ends the frame and gives the statement back what is its own.
func (f *frame) close() {
	if f.nest != nil {
		f.nest.mu.Lock()
		f.nest.done = true
		f.nest.mu.Unlock()
	}
	if f.selects != nil {
		f.stmt.Selects = *f.selects
	}
	if f.stmt.Context == context.Context(f) {
		f.stmt.Context = f.Context
	}
}
