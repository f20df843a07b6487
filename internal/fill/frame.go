package fill

import (
	"context"
	"fmt"
	"reflect"
	"slices"

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
	selects  *[]string    // the caller's Selects, if the plugin replaced them
	upsert   *upsert      // what to reconcile, if anything
	judge    *judge       // what decides on new keys under ON CONFLICT; nil if nothing has to
	sending  bool         // the INSERT comes next
	config   *gorm.Config // of the handle; see plainErrors
	before   []int64      // IDs that were made for the rows before the statement, in ascending order
	inserted bool         // the database has acknowledged the rows
	below    below        // what is known of the creates below this one
}

// below is what a frame knows of the creates below it, which GORM makes for associations and hooks
// may make, also on goroutines of their own.
type below struct {
	outer    *frame        // the frame that was innermost in the transaction before this one
	pool     gorm.ConnPool // the transaction of the statement, nil if it is not registered
	known    bool          // other frames may refer to this one, also when its statement is over
	done     bool          // the statement is over
	children []*frame      // the frames of creates below, in that transaction
}

// upsert is what has to be reconciled after an INSERT with ON CONFLICT.
type upsert struct {
	// conflict is the clause as the user gave it. The drivers rewrite theirs as they build SQL.
	conflict clause.OnConflict
	cells    []cell
	sent     int // how many rows were sent
	// keyless has the rows whose primary key only the database knows. What GORM stores there
	// afterwards may be the key of another row.
	keyless map[int]bool
}

// cell is an ID and where it was put. It is remembered because scanning the rows of RETURNING,
// which GORM does by position, may move IDs to other elements.
type cell struct {
	row, column int
	id          int64
	given       bool // by the user
}

// context is that of the statement.
func (f *frame) context() context.Context {
	if f.stmt.Context == nil {
		return context.Background()
	}
	return f.stmt.Context
}

// openRows looks at the destination of the statement. Structs that were passed by value cannot be
// written to, so they are copied, and the statement then creates the copy.
func (f *frame) openRows() error {
	stmt := f.stmt
	maps, err := newMapRows(f.plan, stmt.Dest)
	if err != nil {
		return err
	}
	if maps != nil {
		f.rows = maps
		return nil
	}
	v := stmt.ReflectValue
	if !v.IsValid() || !f.structs.over(f.plan, v) {
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

// onlyCell returns the cell of a statement that has only one to fill: it creates one struct with
// all of its columns, and one integer key among them is tagged. Most creates are of this kind, and
// the bookkeeping for many rows would cost more than the ID.
func (f *frame) onlyCell() (reflect.Value, bool) {
	if !f.structs.single || len(f.plan.columns) != 1 || !f.plan.columns[0].plain ||
		len(f.stmt.Selects) > 0 || len(f.stmt.Omits) > 0 || len(f.ids) > 0 || f.plan.bound {
		return reflect.Value{}, false
	}
	return f.structs.rv.Field(f.plan.columns[0].direct), true
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

// alsoSelect adds columns to the Select of the statement until the frame is closed. The slice is
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
		if n := f.rows.vacant(c); n > 0 {
			empty += n
			found |= 1 << c
		}
	}
	return empty, found
}

// place writes IDs into the empty cells, column by column.
func (f *frame) place(columns columnMask, ids []int64) (err error) {
	for c, column := range f.plan.columns {
		if !columns.has(c) {
			continue
		}
		if ids, err = f.rows.place(c, ids); err != nil {
			return f.noFit(column, err)
		}
	}
	return nil
}

// noFit is the error of a field that cannot take the ID that was made for it.
func (f *frame) noFit(column *column, cause error) error {
	return fmt.Errorf("%w: %s.%s: %w", errs.ErrInvalidField, f.plan.schema.Name, column.field.Name, cause)
}

// noParent is the error of a row whose ID has to be colocated with a row that it does not name.
func (f *frame) noParent(i int, column *column, value any) error {
	return fmt.Errorf("%w: row %d has %v in %s.%s: set it to the ID of the row that this one is colocated "+
		"with",
		errs.ErrNoParent, i, value, f.plan.schema.Name, column.like.Name)
}

// inTransaction reports whether statements of the pool can still be rolled back.
func inTransaction(pool gorm.ConnPool) bool {
	_, is := pool.(gorm.TxCommitter)
	return is
}

// made reports whether id was generated for a column of this statement.
func (f *frame) made(c int, id int64) bool {
	if contains(f.before, id) {
		return true
	}
	if from := f.plan.columns[c].from; from != nil {
		return contains(f.named[from.name].ids, id)
	}
	return contains(f.ids, id)
}

// get returns the ID in a cell; ok is false if there is none. For a number that has a text of its own, only
// the text of one that was made for this statement tells the number.
func (f *frame) get(i, c int) (id int64, ok bool) { return f.named.get(f, i, c) }

// contains reports whether an ID is among sorted ones.
func contains(ids []int64, id int64) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
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
			named = named.and(frame.named)
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
			if column.from != nil {
				made = named[column.from.name].ids
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
	relations := &f.plan.schema.Relationships
	eachStruct(v, f.plan.schema.ModelType, func(row reflect.Value) {
		for _, relation := range slices.Concat(relations.BelongsTo, relations.HasOne, relations.HasMany) {
			if _, zero := relation.Field.ValueOf(f.context(), row); zero {
				continue
			}
			there := relation.Field.ReflectValueOf(f.context(), row)
			eachStruct(there, relation.FieldSchema.ModelType, func(other reflect.Value) {
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

// eachStruct calls visit with every struct of a type to which a value leads.
func eachStruct(v reflect.Value, model reflect.Type, visit func(reflect.Value)) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		for i := range v.Len() {
			eachStruct(v.Index(i), model, visit)
		}
	case v.IsValid() && v.Type() == model && v.CanAddr():
		visit(v)
	}
}

// close gives the statement back what is its own.
func (f *frame) close() {
	if f.selects != nil {
		f.stmt.Selects = *f.selects
	}
}
