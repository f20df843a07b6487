package fill

import (
	"fmt"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// filler has the callbacks of the plugin on one database. Its methods stand in the order in which
// GORM calls them for a create. An application may remove or replace callbacks of GORM, and then
// GORM puts those of the plugin that were placed before them at the end. So each method also does
// what an earlier one should have done.
type filler struct {
	creates chain // of the database
	plans   *PlanCache
	numbers *Numbers
	open    openFrames
	notes   *Notes
	// inserts: the INSERT of GORM has been seen in its place since the callbacks were last changed.
	inserts atomic.Bool
}

// watch makes the plan of a model before its first INSERT is built, wherever the other callbacks have got
// to; see noZeroKeys. Without the INSERT of GORM nothing tells where the application inserts its rows, so
// watch refuses those that need an ID.
func (f *filler) watch(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	if plan := f.plans.planOf(db.Statement); plan != nil && len(plan.columns) > 0 && !f.hasInsert() {
		_ = db.AddError(errNoInsert())
	}
}

// hasInsert reports whether the INSERT of GORM, or what replaces it, is in its place. GORM goes through all
// callbacks for the answer, so it is asked only after a change.
func (f *filler) hasInsert() bool {
	if f.inserts.Load() {
		return true
	}
	has := f.creates.Get(gormInsert) != nil
	f.inserts.Store(has)
	return has
}

// changed notes that the callbacks may be others now. GORM asks each of them whether it is wanted whenever
// one is added, removed or replaced, and all of the plugin's say yes in this way.
func (f *filler) changed(*gorm.DB) bool {
	f.inserts.Store(false)
	return true
}

// errNoInsert is the error where an application does without the INSERT of GORM.
func errNoInsert() error {
	return fmt.Errorf("%w: the application has removed %s, so nothing tells where the INSERT is: replace it "+
		"in place of removing it", errs.ErrCallbacks, gormInsert)
}

// fillRows gives every empty tagged field of the statement's rows an ID, before the transaction
// begins and before the user's hooks run.
func (f *filler) fillRows(db *gorm.DB) {
	if db.Error != nil || db.Statement.SQL.Len() > 0 {
		return // there is nothing to fill, or the INSERT was already built
	}
	plan := f.plans.planOf(db.Statement)
	if plan == nil || !f.isReady(db, plan) || plan.oneCell && f.fillOneCell(db, plan) {
		return
	}
	f.fillFrame(db, plan)
}

// isReady tells whether rows of the plan may have IDs in this database. Those that have them already are
// refused as well: a router gives a row its ID before it knows the database.
func (f *filler) isReady(db *gorm.DB, plan *Plan) bool {
	if len(plan.columns) == 0 {
		return true
	}
	if err := f.notes.ensure(db); err != nil {
		_ = db.AddError(err)
		return false
	}
	return true
}

// fillFrame is fillRows for a statement of any shape.
func (f *filler) fillFrame(db *gorm.DB, plan *Plan) {
	if len(plan.columns) == 0 && plan.err == nil && !plan.reachesTagged(db) {
		return
	}
	if plan.err != nil {
		_ = db.AddError(plan.err)
		return
	}
	if len(plan.columns) > 0 && !f.hasInsert() { // the application may have removed watch as well
		_ = db.AddError(errNoInsert())
		return
	}
	fr := f.plans.frames.open(db.Statement, plan)
	f.open.adopt(fr)
	f.open.add(fr)
	if len(plan.columns) == 0 {
		return
	}
	if err := fr.openRows(); err != nil {
		_ = db.AddError(err)
		return
	}
	if err := assign(fr, f.numbers); err != nil {
		_ = db.AddError(err)
	}
}

// noteTransaction remembers the transaction once it has begun, before hooks create rows in it.
func (f *filler) noteTransaction(db *gorm.DB) {
	if fr := f.plans.frames.of(db.Statement); fr != nil {
		f.open.add(fr)
	}
}

// beforeInsert gives an ID to fields that a hook of the user has emptied, and notes which IDs an
// INSERT with ON CONFLICT may leave in no row.
func (f *filler) beforeInsert(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	if p := f.plans.frames.oneCellOf(db.Statement); p == nil || len(db.Statement.Clauses) > 0 {
		f.beforeFrame(db, p)
	} else {
		p.one.sending = true
		if db.TranslateError {
			p.config = plainErrors(db)
		}
	}
	if db.Statement.Unscoped {
		checkUnscoped(db.Statement)
	}
}

// beforeFrame is beforeInsert for a statement that has a frame or needs one. If the statement has one cell,
// p is its place, and otherwise nil.
func (f *filler) beforeFrame(db *gorm.DB, p *place) {
	fr := f.plans.frames.of(db.Statement)
	if p != nil {
		var err error
		if fr, err = f.plans.frames.widen(p, f.plans.planOf(db.Statement)); err != nil {
			_ = db.AddError(err)
			return
		}
	}
	if fr == nil {
		f.fillRows(db)
		if fr = f.plans.frames.of(db.Statement); fr == nil || db.Error != nil {
			return
		}
	} else if fr.plan.refills && !db.Statement.SkipHooks {
		if err := assign(fr, f.numbers); err != nil {
			_ = db.AddError(err)
			return
		}
	}
	f.open.add(fr)
	if fr.rows == nil {
		return
	}
	if fr.mask != 0 && len(db.Statement.Clauses) > 0 {
		if f.prepareUpsert(db, fr); db.Error != nil {
			return
		}
	}
	if fr.rebuilds(db) {
		if fr.judge == nil {
			fr.judge = newJudge(fr)
		}
		if fr.judge != nil {
			fr.judge.remember(db, fr)
		}
	}
	fr.sending, fr.config = true, plainErrors(db)
}

// afterInsert brings IDs and rows together, before associations copy the keys.
func (f *filler) afterInsert(db *gorm.DB) {
	if p := f.plans.frames.oneCellOf(db.Statement); p != nil {
		p.afterOneCell(db)
		return
	}
	fr := f.plans.frames.of(db.Statement)
	if fr == nil || fr.rows == nil {
		return
	}
	sent, config := fr.sending, fr.config
	fr.sending, fr.config = false, nil
	fr.judge.giveBack(db, fr)
	if sent && db.Error != nil {
		f.judgeError(db, fr, config)
	} else {
		translated(db, config)
	}
	if db.Error != nil || db.DryRun || fr.judge.loses(db, fr) {
		return
	}
	if upsert := fr.upsert; upsert != nil {
		fr.upsert = nil
		if err := reconcile(db, fr, upsert, f.plans); err != nil {
			_ = db.AddError(fmt.Errorf("snowflakeplugin: read the IDs of upserted %s back: %w",
				fr.plan.schema.Name, err))
		}
		if db.Error != nil {
			return
		}
	}
	fr.inserted = true
}

// finish takes the IDs back if the statement failed, and ends the frame.
func (f *filler) finish(db *gorm.DB) {
	if p := f.plans.frames.oneCellOf(db.Statement); p != nil {
		p.finishOneCell(db)
		return
	}
	fr := f.plans.frames.of(db.Statement)
	if fr == nil {
		return
	}
	f.afterInsert(db)
	if db.Error != nil {
		fr.reset(f.open.tree(fr), beganTransaction(db))
	}
	f.open.remove(fr)
	f.plans.frames.remove(fr)
}

// track makes an update the root of the creates below it: its associations are saved in its
// transaction, and if that fails, their structs must not keep their IDs.
func (f *filler) track(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	if plan := f.plans.planOf(db.Statement); plan != nil && plan.reachesTagged(db) {
		fr := f.plans.frames.open(db.Statement, plan)
		f.open.adopt(fr)
		f.open.add(fr)
	}
}

// CheckShard returns the callback that looks at all rows once more, when they have their keys and hooks
// have run, right before they are inserted.
func CheckShard(plans *PlanCache) func(*gorm.DB) {
	return func(db *gorm.DB) {
		fr := plans.frames.of(db.Statement)
		if db.Error != nil || fr == nil || fr.rows == nil || fr.plan.shard == nil {
			return
		}
		if err := checkShard(fr); err != nil {
			_ = db.AddError(err)
		}
	}
}

// refuseEmpty returns the callback that refuses rows without an ID, where no ID can be had for the
// given reason, and all rows of a model whose tags are faulty.
func refuseEmpty(plans *PlanCache, cause error) func(*gorm.DB) {
	return func(db *gorm.DB) {
		plan := plans.planOf(db.Statement)
		if db.Error != nil || plan == nil {
			return
		}
		if plan.err != nil {
			_ = db.AddError(plan.err)
			return
		}
		if len(plan.columns) == 0 {
			return
		}
		fr := &frame{stmt: db.Statement, plan: plan}
		if err := fr.openRows(); err != nil || fr.rows == nil {
			_ = db.AddError(err)
			return
		}
		sent, unselected := fr.sentColumns()
		if empty, columns := fr.countVacant(sent | unselected); empty > 0 {
			_ = db.AddError(fmt.Errorf("%w: no ID for %s: db.Use failed: %w",
				errs.ErrNotInUse, plan.names(columns), cause))
		}
	}
}
