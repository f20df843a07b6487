package snowflakeplugin

import (
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
)

// filler has the callbacks of the plugin on one database. It is immutable.
type filler struct {
	plans   *planCache
	numbers *numbers
}

// fill gives every empty tagged field of the statement's rows an ID, before the transaction
// begins and before the user's hooks run.
func (f *filler) fill(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	stmt := db.Statement
	plan := f.plans.planOf(stmt)
	if plan == nil || len(plan.columns) == 0 && plan.err == nil && !plan.tree {
		return
	}
	if plan.err != nil {
		_ = db.AddError(plan.err)
		return
	}
	fr := newFrame(stmt, plan)
	if len(plan.columns) == 0 {
		return
	}
	if err := fr.openRows(); err != nil {
		_ = db.AddError(err)
		return
	}
	f.assign(db, fr)
}

// enter notes the transaction once it has begun, before hooks may create more rows in it.
func (f *filler) enter(db *gorm.DB) {
	if fr := frameOf(db.Statement); fr != nil {
		fr.enter(db.Statement.ConnPool)
	}
}

// track makes an update the root of the creates below it: its associations are saved in its
// transaction, and if that fails, their structs must not keep their IDs. It runs in it.
func (f *filler) track(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	if plan := f.plans.planOf(db.Statement); plan != nil && plan.tree {
		newFrame(db.Statement, plan).enter(db.Statement.ConnPool)
	}
}

// refill gives an ID to fields that a hook of the user has emptied.
func (f *filler) refill(db *gorm.DB) {
	if db.Error != nil || db.Statement.SkipHooks {
		return
	}
	if fr := frameOf(db.Statement); fr != nil && fr.plan.refills {
		f.assign(db, fr)
	}
}

// finish undoes the fill if the statement failed, and ends the frame.
func (f *filler) finish(db *gorm.DB) {
	fr := frameOf(db.Statement)
	if fr == nil {
		return
	}
	if db.Error != nil {
		fr.reset()
	}
	fr.close()
}

// assign makes one reservation for all empty cells and writes the IDs into them.
func (f *filler) assign(db *gorm.DB, fr *frame) {
	if fr.rows == nil {
		return
	}
	if cell, ok := fr.onlyCell(); ok {
		f.assignOne(db, fr, cell)
		return
	}
	sent, unselected := sentColumns(fr)
	empty, columns := fr.countVacant(sent | unselected)
	if empty == 0 {
		return
	}
	fr.alsoSelect(columns & unselected)
	fr.mask |= columns
	if fr.plan.bound {
		bound, err := f.assignBound(fr, columns)
		if err != nil {
			_ = db.AddError(err)
			return
		}
		columns &^= bound
		empty, columns = fr.countVacant(columns)
	}
	if err := f.reserve(fr, empty); err != nil {
		_ = db.AddError(fr.noID(columns, err))
		return
	}
	if err := fr.put(columns, fr.ids[len(fr.ids)-empty:]); err != nil {
		_ = db.AddError(err)
	}
	// The plugin's own numbers come in order; a source of the application may not care.
	if !slices.IsSorted(fr.ids) {
		slices.Sort(fr.ids)
	}
}

// onlyCell returns the cell of a statement that has only one to fill: one struct, all of its
// columns, one integer key among them. Most creates are of this kind, and for one row the
// bookkeeping for many costs more than the ID.
func (f *frame) onlyCell() (reflect.Value, bool) {
	if !f.structs.single || len(f.plan.columns) != 1 || !f.plan.columns[0].plain ||
		len(f.stmt.Selects) > 0 || len(f.stmt.Omits) > 0 || len(f.ids) > 0 || f.plan.bound {
		return reflect.Value{}, false
	}
	return f.structs.rv.Field(f.plan.columns[0].direct), true
}

// assignOne fills a single cell.
func (f *filler) assignOne(db *gorm.DB, fr *frame, cell reflect.Value) {
	if cell.Int() != 0 {
		return
	}
	id, err := f.numbers.next(fr.Context)
	if err != nil {
		_ = db.AddError(fr.noID(1, err))
		return
	}
	cell.SetInt(id)
	fr.one[0] = id
	fr.ids, fr.mask = fr.one[:], 1
}

// noID is the error of a statement whose columns could get no ID.
func (f *frame) noID(columns columnMask, cause error) error {
	return fmt.Errorf("snowflakeplugin: no ID for %s: %w", f.plan.names(columns), cause)
}

// reserve appends so many new IDs to those of the frame.
func (f *filler) reserve(fr *frame, count int) error {
	before := len(fr.ids)
	ids := slices.Grow(fr.ids, count)[:before+count]
	if err := f.numbers.fill(fr.Context, ids[before:]); err != nil {
		return err
	}
	fr.ids = ids
	return nil
}

// openRows looks at the destination of the statement. Structs passed by value are copied, because
// they cannot be written to; the copy is what the statement then creates.
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
		return nil // a foreign type or a shape that GORM refuses: none of our business
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

// sentColumns returns the columns that the INSERT will have, as Select and Omit say, and the
// primary keys that it will not have only because Select does not name them: a row needs its
// key. A column that is left out on purpose gets no ID, which would be in no row.
func sentColumns(f *frame) (sent, unselected columnMask) {
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

// alsoSelect adds columns to the Select of the statement, until the frame is closed. The slice is
// copied: GORM shares it between statements.
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

// countVacant counts the empty cells of all columns and says which columns have any.
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

// put writes the IDs into the empty cells, column by column.
func (f *frame) put(columns columnMask, ids []int64) (err error) {
	for c, column := range f.plan.columns {
		if !columns.has(c) {
			continue
		}
		if ids, err = f.rows.fill(c, ids); err != nil {
			return fmt.Errorf("%w: %s.%s: %w", ErrInvalidField, f.plan.schema.Name, column.field.Name, err)
		}
	}
	return nil
}
