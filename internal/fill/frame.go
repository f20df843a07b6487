package fill

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// frame remembers what the plugin did for one create statement, from the fill to the end. A frameTable
// finds it, and uses it again for a later statement.
type frame struct {
	stmt *gorm.Statement
	plan *Plan
	rows rows       // nil when the plugin has nothing to do with the destination
	ids  []int64    // the generated IDs in ascending order
	one  [1]int64   // backing of ids for a single ID
	mask columnMask // the columns that got generated IDs

	named    madeBy       // the numbers of named sources; nil if there are none
	structs  structRows   // backing of rows
	maps     mapRows      // backing of rows
	selects  *[]string    // the caller's Selects, if the plugin replaced them
	upsert   *upsert      // what to reconcile, if anything
	judge    *judge       // what decides on new keys under ON CONFLICT; nil if nothing has to
	sending  bool         // the INSERT comes next
	config   *gorm.Config // of the handle; see plainErrors
	before   []int64      // IDs that were made for the rows before the statement, in ascending order
	stored   []int64      // those of ids that creates below have stored before, in ascending order
	inserted bool         // the database has acknowledged the rows
	nested   below        // what is known of the creates below this one
}

// frameTable finds the frame of a statement. Applications see the context and the settings of a
// statement and may replace them, so the frame is in neither. Most frames stand in a table of the
// plugin, and serve one statement after another, so they take no allocation. If another statement
// occupies the slot, the frame stands among the clauses of its statement, where GORM copies it now and
// then but never builds it.
//
// A panic in a hook can leave a frame behind. It then keeps its slot and its statement, and there
// are only so many slots.
type frameTable struct {
	slots [1 << slotBits]slot
	// spilled counts the frames among clauses. As long as there are none, nobody looks there.
	spilled atomic.Int64
	spare   sync.Pool // empty frames
}

// slot has what is known of one statement at a time: its frame, or its one cell.
type slot struct {
	stmt atomic.Pointer[gorm.Statement] // nil if the slot is free

	// Only whoever runs that statement reads and writes these.
	frame *frame // nil if there is one cell
	one   oneCell
	// config is as in a frame. With it a slot fills a line of the cache, so that statements do not share one.
	config *gorm.Config
}

// slotBits is the binary logarithm of the number of slots.
const slotBits = 8

// frameClause is the name of a frame among the clauses of a statement.
const frameClause = PluginName + ":frame"

// below is what a frame knows of the creates below it, which GORM makes for associations and hooks
// may make, also on goroutines of their own.
type below struct {
	outer    *frame        // the frame that was innermost in the transaction before this one
	pool     gorm.ConnPool // the transaction of the statement, nil if it is not registered
	known    bool          // other frames may refer to this one, also when its statement is over
	done     bool          // the statement is over
	children []*frame      // the frames of creates below, in that transaction
	made     []int64       // the IDs that it has made, in ascending order, until its rows are stored
}

// cellID is an ID and where it was put. It is remembered because scanning the rows of RETURNING,
// which GORM does by position, may move IDs to other elements.
type cellID struct {
	row, column int
	id          int64
	given       bool // by the user
}

// upsert is what has to be reconciled after an INSERT with ON CONFLICT.
type upsert struct {
	// conflict is the clause as the user gave it. The drivers rewrite theirs as they build SQL.
	conflict clause.OnConflict
	cells    []cellID
	sent     int // how many rows were sent
	// keyless has the rows whose primary key only the database knows. What GORM stores there
	// afterwards may be the key of another row.
	keyless map[int]bool
}

// oneCell is what is known of a statement that creates one struct with one integer key, and nothing below
// it. Most creates are of this kind. A frame would cost more than their ID: a create runs long enough
// between two callbacks for the memory and the code of the plugin to leave the caches of the processor, so
// each callback pays for all that it touches.
type oneCell struct {
	row      reflect.Value // the struct
	id       int64
	inserted bool // as in a frame
	sending  bool // as in a frame
}

// find returns the frame of this very statement, or nil.
func (t *frameTable) find(stmt *gorm.Statement) *frame {
	if p := t.slotOf(stmt); p.stmt.Load() == stmt {
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

// oneCellOf returns the slot of a statement that has one cell, or nil.
func (t *frameTable) oneCellOf(stmt *gorm.Statement) *slot {
	if p := t.slotOf(stmt); p.stmt.Load() == stmt && p.frame == nil {
		return p
	}
	return nil
}

// slotOf returns where the frame of a statement stands unless the slot is occupied.
func (t *frameTable) slotOf(stmt *gorm.Statement) *slot { return &t.slots[spread(stmt, slotBits)] }

// open makes the frame of a statement. If a panic ended the statement before, the new frame replaces
// the old one.
func (t *frameTable) open(stmt *gorm.Statement, plan *Plan) *frame {
	f := t.fresh(stmt, plan)
	if p := t.slotOf(stmt); p.stmt.CompareAndSwap(nil, stmt) || p.stmt.Load() == stmt {
		p.frame, p.one = f, oneCell{}
		return f
	}
	if t.find(stmt) == nil {
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

// widen makes a frame of a statement that has one cell: the application has added clauses since that was
// filled, or the statement has failed.
func (t *frameTable) widen(p *slot, plan *Plan) *frame {
	f := t.fresh(p.stmt.Load(), plan)
	f.structs.pointAt(plan, p.one.row)
	f.rows, f.one[0] = &f.structs, p.one.id
	f.ids, f.mask = f.one[:], 1
	f.sending, f.config, f.inserted = p.one.sending, p.config, p.one.inserted
	p.frame, p.one, p.config = f, oneCell{}, nil
	return f
}

// remove forgets a frame whose statement is over, and gives that back what is its own.
func (t *frameTable) remove(f *frame) {
	if f.selects != nil {
		f.stmt.Selects = *f.selects
	}
	if p := t.slotOf(f.stmt); p.stmt.Load() == f.stmt {
		p.frame = nil
		p.stmt.Store(nil)
	} else {
		delete(f.stmt.Clauses, frameClause)
		t.spilled.Add(-1)
	}
	if f.nested.known {
		return // other frames may still refer to this one
	}
	*f = frame{}
	t.spare.Put(f)
}

// Build makes a frame a clause. GORM builds only the clauses that it knows, and so never this one.
func (*frame) Build(clause.Builder) {}

func (f *frame) context() context.Context { return orBackground(f.stmt.Context) }

// openRows looks at the destination of the statement. Structs that were passed by value cannot be
// written to, so they are copied, and the statement then creates the copy.
func (f *frame) openRows() error {
	stmt := f.stmt
	if isMaps, err := f.maps.pointAt(f.plan, stmt.Dest); isMaps {
		f.rows = &f.maps
		return err
	}
	v := stmt.ReflectValue
	if !v.IsValid() || !f.structs.pointAt(f.plan, v) {
		if leadsTo(v, f.plan.schema.ModelType) {
			return fmt.Errorf("snowflakeplugin: create %s from %T: pointers to pointers cannot be filled: %w",
				f.plan.schema.Name, stmt.Dest, gorm.ErrInvalidData)
		}
		return nil // a foreign type, or a shape that GORM refuses
	}
	if v.Kind() != reflect.Slice && !v.CanAddr() && !f.structs.pointers {
		settable := reflect.New(v.Type())
		settable.Elem().Set(v)
		stmt.Dest, stmt.ReflectValue = settable.Interface(), settable.Elem()
		f.structs.rv = stmt.ReflectValue
	}
	f.rows = &f.structs
	return nil
}

// leadsTo reports whether a slice has pointers that lead to a model through other pointers.
func leadsTo(v reflect.Value, model reflect.Type) bool {
	if !v.IsValid() || v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return false
	}
	elem := v.Type().Elem()
	for elem.Kind() == reflect.Pointer {
		elem = elem.Elem()
	}
	return elem == model
}

// sentColumns returns the columns that the INSERT will have, as Select and Omit say. unselected has
// the primary keys that are missing there only because Select does not name them: a row needs its
// key. A column that is left out on purpose gets no ID, because the ID would be in no row.
func (f *frame) sentColumns() (sent, unselected columnMask) {
	if len(f.stmt.Selects) == 0 && len(f.stmt.Omits) == 0 {
		return 1<<len(f.plan.columns) - 1, 0
	}
	chosen, restricted := f.stmt.SelectAndOmitColumns(true, false)
	for c, column := range f.plan.columns {
		wanted, named := chosen[column.field.DBName]
		switch {
		case wanted, !named && !restricted:
			sent |= 1 << c
		case !named && column.field.PrimaryKey:
			unselected |= 1 << c
		}
	}
	return sent, unselected
}

// alsoSelect adds columns to the Select of the statement until the frame is removed. The slice is
// copied because GORM shares it between statements.
func (f *frame) alsoSelect(columns columnMask) {
	if columns == 0 {
		return
	}
	if f.selects == nil {
		own := f.stmt.Selects
		f.selects = &own
		f.stmt.Selects = slices.Clone(own)
	}
	for c, column := range f.plan.columns {
		if columns.has(c) {
			f.stmt.Selects = append(f.stmt.Selects, column.field.DBName)
		}
	}
}

// countVacant counts the empty cells of some columns and says which of the columns have any.
func (f *frame) countVacant(columns columnMask) (empty int, found columnMask) {
	for c := range f.plan.columns {
		if !columns.has(c) {
			continue
		}
		if n := f.vacant(c); n > 0 {
			empty += n
			found |= 1 << c
		}
	}
	return empty, found
}

// vacant counts the empty cells of a column.
func (f *frame) vacant(c int) (empty int) {
	if column := f.plan.columns[c]; f.rows == &f.structs && f.structs.isTable(column) {
		for i := range f.structs.rv.Len() {
			if f.structs.rv.Index(i).Field(column.direct).Int() == 0 {
				empty++
			}
		}
		return empty
	}
	for i := range f.rows.count() {
		if f.rows.isVacant(i, c) {
			empty++
		}
	}
	return empty
}

// write writes IDs into the empty cells, column by column.
func (f *frame) write(columns columnMask, ids []int64) (err error) {
	for c, column := range f.plan.columns {
		if !columns.has(c) {
			continue
		}
		if ids, err = f.rows.write(c, ids); err != nil {
			return f.noFit(column, err)
		}
	}
	return nil
}

// writeNamed writes the numbers of one source into the empty cells of its columns. Nothing is written
// unless all of them fit.
func (f *frame) writeNamed(columns columnMask, ids []int64) error {
	rest := ids
	for c, column := range f.plan.columns {
		if !columns.has(c) {
			continue
		}
		n := f.vacant(c)
		for _, id := range rest[:n] {
			if err := column.fits(id); err != nil {
				return f.noFit(column, err)
			}
		}
		f.note(column, rest[:n])
		rest = rest[n:]
	}
	return f.write(columns, ids)
}

// note remembers numbers that were made for a column of a named source.
func (f *frame) note(column *column, ids []int64) {
	fresh := made{ids: ids}
	if column.hasText() {
		fresh.texts = make(map[string]int64, len(ids))
		for _, id := range ids {
			fresh.texts[column.textOf(id)] = id
		}
	}
	f.named = f.named.union(madeBy{column.source.name: fresh})
}

// noFit is the error of a field that cannot take the ID that was made for it.
func (f *frame) noFit(column *column, cause error) error {
	return fmt.Errorf("%w: %s.%s: %w", errs.ErrInvalidField, f.plan.schema.Name, column.field.Name, cause)
}

// noParent is the error of a row whose ID has to be colocated with a row that it does not name.
func (f *frame) noParent(i int, column *column, value any) error {
	return fmt.Errorf("%w: row %d has %v in %s.%s: set it to the ID of the row that this one is colocated with",
		errs.ErrNoParent, i, value, f.plan.schema.Name, column.like.Name)
}

// made reports whether id was generated for a column of this statement, of a row that is not stored yet.
func (f *frame) made(c int, id int64) bool {
	switch {
	case contains(f.stored, id):
		return false
	case contains(f.before, id):
		return true
	}
	if source := f.plan.columns[c].source; source != nil {
		return contains(f.named[source.name].ids, id)
	}
	return contains(f.ids, id)
}

// replaced returns a field in which other values stand than the IDs that were made for the rows, or nil. A
// hook may also have emptied some, which get new ones.
func (f *frame) replaced() (field *schema.Field) {
	if f.rows == nil || len(f.ids) == 0 {
		return nil
	}
	left := len(f.ids)
	for c, column := range f.plan.columns {
		if !f.mask.has(c) || column.source != nil {
			continue
		}
		for i := range f.rows.count() {
			id, isSet := f.get(i, c)
			switch {
			case !isSet || contains(f.ids, id):
				left--
			case field == nil:
				field = column.field
			}
		}
	}
	if left <= 0 {
		return nil // the other values are the caller's own
	}
	return field
}

// get returns the ID in a cell; ok is false if there is none. For a number that has a text of its own, only
// the text of one that was made for this statement tells the number.
func (f *frame) get(i, c int) (id int64, ok bool) { return f.named.get(f, i, c) }

// contains reports whether an ID is among sorted ones.
func contains(ids []int64, id int64) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

// made is what one source has made for a statement.
type made struct {
	ids   []int64          // in ascending order
	texts map[string]int64 // of the columns that keep texts
}

// madeBy has what was made, by the name of the source. A nil map has nothing.
type madeBy map[string]made

// union returns what is in either.
func (m madeBy) union(other madeBy) madeBy {
	for name, more := range other {
		if m == nil {
			m = madeBy{}
		}
		all := made{ids: append(slices.Clone(m[name].ids), more.ids...), texts: map[string]int64{}}
		slices.Sort(all.ids)
		maps.Copy(all.texts, m[name].texts)
		maps.Copy(all.texts, more.texts)
		m[name] = all
	}
	return m
}

// get returns the ID in a cell of a frame; ok is false if there is none. It is 0 for a text that is not
// among those that were made.
func (m madeBy) get(f *frame, i, c int) (id int64, ok bool) {
	column := f.plan.columns[c]
	if !column.hasText() {
		return f.rows.get(i, c)
	}
	value, known := f.rows.value(f.context(), i, column.field)
	if !known {
		return 0, false
	}
	text, ok := textIn(value)
	return m[column.source.name].texts[text], ok && text != ""
}

// InTransaction reports whether statements of the pool can still be rolled back.
func InTransaction(pool gorm.ConnPool) bool {
	_, is := pool.(gorm.TxCommitter)
	return is
}

// beganTransaction reports whether the statement has begun the transaction in which it is, so that GORM rolls
// that back if the statement fails.
func beganTransaction(db *gorm.DB) bool {
	_, began := db.InstanceGet("gorm:started_transaction")
	return began
}

// reset takes back the IDs that were generated for a statement that has failed and for those below it, which
// frames lists together with this one, so that no struct keeps an ID that is in no row: GORM would add it to
// the conditions of later queries, and they would find nothing. What a user or a hook has set stays. So does
// the ID of a row that the database has acknowledged, unless the transaction goes that the statement itself
// has begun: a struct without the ID of its row would be stored twice.
func (f *frame) reset(frames []*frame, undone bool) {
	ids, named := f.ids, f.named
	if len(frames) > 1 {
		// An upsert may have met a row that another part of the tree had just made.
		ids, named = nil, nil
		for _, frame := range frames {
			ids = append(ids, frame.ids...)
			named = named.union(frame.named)
		}
		slices.Sort(ids)
	}
	var gone []int64
	for _, frame := range frames {
		if !frame.inserted || undone {
			gone = frame.takeBack(ids, named, gone)
		}
	}
	if len(gone) == 0 {
		return
	}
	slices.Sort(gone)
	for _, frame := range frames {
		if frame.plan.nests {
			frame.forgetParents(gone)
		}
	}
}

// takeBack restores the cells that hold one of the IDs, and adds those IDs to gone.
func (f *frame) takeBack(ids []int64, named madeBy, gone []int64) []int64 {
	if f.rows == nil || f.mask == 0 {
		return gone
	}
	for i := range f.rows.count() {
		for c, column := range f.plan.columns {
			made := ids
			if column.source != nil {
				made = named[column.source.name].ids
			}
			if id, ok := named.get(f, i, c); ok && f.mask.has(c) && contains(made, id) {
				f.rows.restore(i, c)
				gone = append(gone, id)
			}
		}
	}
	return gone
}

// forgetParents empties the foreign keys that GORM has set to IDs which were then taken back. Such a key
// leads from a row to the row of one of its associations, or back to it.
func (f *frame) forgetParents(gone []int64) {
	v := f.stmt.ReflectValue
	if f.rows != nil && f.structs.plan != nil {
		v = f.structs.rv
	}
	relations := ownRelations(f.plan.schema)
	EachStruct(v, f.plan.schema.ModelType, func(row reflect.Value) {
		if !row.CanAddr() {
			return
		}
		for _, relation := range relations {
			if _, zero := relation.Field.ValueOf(f.context(), row); zero {
				continue
			}
			there := relation.Field.ReflectValueOf(f.context(), row)
			EachStruct(there, relation.FieldSchema.ModelType, func(other reflect.Value) {
				for _, ref := range relation.References {
					owner, child := other, row
					if ref.OwnPrimaryKey {
						owner, child = row, other
					}
					if ref.PrimaryKey != nil {
						forgetParent(f.context(), ref, owner, child, gone)
					}
				}
			})
		}
	})
}

// forgetParent empties the foreign key of a struct if its parent has lost the ID that stands there.
func forgetParent(ctx context.Context, ref *schema.Reference, parent, child reflect.Value, gone []int64) {
	if _, lost := ref.PrimaryKey.ValueOf(ctx, parent); !lost {
		return
	}
	value, zero := ref.ForeignKey.ValueOf(ctx, child)
	if zero {
		return
	}
	if id, ok := IDOf(value); ok && contains(gone, id) {
		ref.ForeignKey.ReflectValueOf(ctx, child).SetZero()
	}
}

// EachStruct calls visit with every struct of a type to which a value leads.
func EachStruct(v reflect.Value, model reflect.Type, visit func(reflect.Value)) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		for i := range v.Len() {
			EachStruct(v.Index(i), model, visit)
		}
	case v.IsValid() && v.Type() == model:
		visit(v)
	}
}

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
	if f.nested.pool != nil || !f.plan.nests || !InTransaction(pool) || !reflect.TypeOf(pool).Comparable() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.innermost == nil {
		o.innermost = map[gorm.ConnPool]*frame{}
	}
	f.nested.pool, f.nested.outer, f.nested.known = pool, o.innermost[pool], true
	f.nested.made = f.ids
	o.innermost[pool] = f
	o.count.Store(int64(len(o.innermost)))
}

// adopt hangs a frame below the statement that is at work in its transaction, if there is one.
func (o *openFrames) adopt(child *frame) {
	pool := child.stmt.ConnPool
	if o.count.Load() == 0 || !InTransaction(pool) || !reflect.TypeOf(pool).Comparable() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if parent := o.innermost[pool]; parent != nil && parent != child {
		parent.nested.children = append(parent.nested.children, child)
		child.nested.known = true
	}
}

// remove forgets a frame whose statement is over. Statements on several goroutines may end in any
// order, so the frames around it that are over as well are skipped.
func (o *openFrames) remove(f *frame) {
	if f.nested.pool == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f.nested.done = true
	top := o.innermost[f.nested.pool]
	for top != nil && top.nested.done {
		top = top.nested.outer
	}
	if top == nil {
		delete(o.innermost, f.nested.pool)
	} else {
		o.innermost[f.nested.pool] = top
	}
	o.count.Store(int64(len(o.innermost)))
}

// tree lists a frame and all below it.
func (o *openFrames) tree(f *frame) []*frame {
	if f.nested.pool == nil {
		return []*frame{f}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	frames := []*frame{f}
	for i := 0; i < len(frames); i++ {
		frames = append(frames, frames[i].nested.children...)
	}
	return frames
}

// inherit gives a statement the IDs that those around it have made for its rows and have not stored yet, as
// where a row of a slice is the parent of another one: it stores them first, and knows whether their keys are
// there.
func (o *openFrames) inherit(f *frame) {
	o.around(f, func(outer *frame) {
		for c, column := range f.plan.columns {
			for i := range f.rows.count() {
				id, ok := f.get(i, c)
				if ok && column.source == nil && contains(outer.nested.made, id) && !contains(outer.stored, id) &&
					!contains(f.ids, id) {
					f.ids, f.mask = append(f.ids, id), f.mask|1<<c
					slices.Sort(f.ids)
				}
			}
		}
	})
}

// bequeath tells the statements around one that has stored its rows which of their IDs are stored now.
func (o *openFrames) bequeath(f *frame) {
	o.around(f, func(outer *frame) {
		for _, id := range f.ids {
			if contains(outer.nested.made, id) {
				outer.stored = append(outer.stored, id)
			}
		}
		slices.Sort(outer.stored)
	})
	if f.nested.pool != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		f.nested.made = nil
	}
}

// around calls visit with each frame around one that is of the same model.
func (o *openFrames) around(f *frame, visit func(outer *frame)) {
	if f.nested.outer == nil || f.rows == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for outer := f.nested.outer; outer != nil; outer = outer.nested.outer {
		if len(outer.nested.made) > 0 && outer.plan.schema.ModelType == f.plan.schema.ModelType {
			visit(outer)
		}
	}
}
