package fill

import (
	"reflect"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
)

// openFrames knows, for every transaction of a database, the innermost statement that is at work in
// it and may create more rows. A create that begins meanwhile in the same transaction is below that
// statement: if the statement fails, both are undone.
//
// The transaction tells this, because GORM and hooks pass it on and nothing else. Two goroutines
// that create rows in one transaction at the same time therefore count as one below the other. That
// is right as long as a failure of the one ends the transaction of both.
type openFrames struct {
	count     atomic.Int64 // of innermost
	mu        sync.Mutex
	innermost map[gorm.ConnPool]*frame // guarded by mu
}

// add registers a frame when its statement has entered its transaction. A second call does nothing.
func (o *openFrames) add(f *frame) {
	pool := f.stmt.ConnPool
	if f.below.pool != nil || !f.plan.nests || !inTransaction(pool) || !reflect.TypeOf(pool).Comparable() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.innermost == nil {
		o.innermost = map[gorm.ConnPool]*frame{}
	}
	f.below.pool, f.below.outer, f.below.known = pool, o.innermost[pool], true
	o.innermost[pool] = f
	o.count.Store(int64(len(o.innermost)))
}

// adopt hangs a frame below the statement that is at work in its transaction, if there is one.
func (o *openFrames) adopt(child *frame) {
	pool := child.stmt.ConnPool
	if o.count.Load() == 0 || !inTransaction(pool) || !reflect.TypeOf(pool).Comparable() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if parent := o.innermost[pool]; parent != nil && parent != child {
		parent.below.children = append(parent.below.children, child)
		child.below.known = true
	}
}

// remove forgets a frame whose statement is over. Statements on several goroutines may end in any
// order, so the frames around it that are over as well are skipped.
func (o *openFrames) remove(f *frame) {
	if f.below.pool == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f.below.done = true
	top := o.innermost[f.below.pool]
	for top != nil && top.below.done {
		top = top.below.outer
	}
	if top == nil {
		delete(o.innermost, f.below.pool)
	} else {
		o.innermost[f.below.pool] = top
	}
	o.count.Store(int64(len(o.innermost)))
}

// tree lists a frame and all below it.
func (o *openFrames) tree(f *frame) []*frame {
	if f.below.pool == nil {
		return []*frame{f}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	frames := []*frame{f}
	for i := 0; i < len(frames); i++ {
		frames = append(frames, frames[i].below.children...)
	}
	return frames
}
