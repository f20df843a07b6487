package fill

import (
	"reflect"

	"gorm.io/gorm"
)

// oneCell is what is known of a statement that creates one struct with one integer key, and nothing below
// it. Most creates are of this kind. A frame would cost more than their ID: a create runs long enough
// between two callbacks for the memory and the code of the plugin to leave the caches of the processor, so
// each callback pays for all that it touches.
type oneCell struct {
	cell     reflect.Value
	id       int64
	inserted bool // as in a frame
	sending  bool // as in a frame
}

// hasOneCell finds out whether the plan is one for oneCell. The other fields of the plan have to be known.
func (p *Plan) hasOneCell() bool {
	return p.err == nil && len(p.columns) == 1 && p.columns[0].plain && !p.bound && !p.nests
}

// fillOneCell does the work of fillRows for a statement whose plan has one cell. It returns false if a
// frame has to do it: the statement is of another shape, or it may be below another create.
func (f *filler) fillOneCell(db *gorm.DB, plan *Plan) bool {
	stmt := db.Statement
	row := stmt.ReflectValue
	if row.Kind() != reflect.Struct || !row.CanAddr() || row.Type() != plan.schema.ModelType ||
		len(stmt.Selects) > 0 || len(stmt.Omits) > 0 || len(stmt.Clauses) > 0 || stmt.Context == nil ||
		f.open.count.Load() > 0 || !f.inserts.Load() {
		return false
	}
	cell := row.Field(plan.columns[0].direct)
	if cell.Int() != 0 {
		return true
	}
	p := f.plans.frames.place(stmt)
	if !p.stmt.CompareAndSwap(nil, stmt) {
		return false
	}
	id, err := f.numbers.Next(stmt.Context)
	if err != nil {
		p.stmt.Store(nil)
		_ = db.AddError(plan.noID(1, err))
		return true
	}
	cell.SetInt(id)
	p.one.cell, p.one.id = cell, id
	return true
}

// afterOneCell does the work of afterInsert for a statement that has one cell.
func (p *place) afterOneCell(db *gorm.DB) {
	sent := p.one.sending
	p.one.sending = false
	if sent && db.Error != nil {
		p.judgeOneCell(db)
	}
	translated(db, p.config)
	p.config = nil
	if db.Error == nil && !db.DryRun {
		p.one.inserted = true
	}
}

// finishOneCell ends a statement that has one cell. It takes the ID back if the statement failed, unless
// the application has set another one.
func (p *place) finishOneCell(db *gorm.DB) {
	translated(db, p.config) // unless the application has removed what comes before
	p.config = nil
	if one := &p.one; db.Error != nil && one.cell.Int() == one.id && (!one.inserted || beganTransaction(db)) {
		one.cell.SetZero()
	}
	p.one = oneCell{}
	p.stmt.Store(nil)
}

// widen makes a frame of a statement that has one cell, because the application has added clauses since
// that was filled.
func (t *frameTable) widen(p *place, plan *Plan) (*frame, error) {
	f := t.fresh(p.stmt.Load(), plan)
	f.one[0] = p.one.id
	f.ids, f.mask, f.inserted = f.one[:], 1, p.one.inserted
	p.frame, p.one = f, oneCell{}
	return f, f.openRows()
}
