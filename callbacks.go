package snowflakeplugin

import (
	"fmt"

	"gorm.io/gorm"
)

// The plugin's callbacks. Those of creates are listed in the order in which they run.
const (
	callbackGuard     = pluginName + ":guard" // in place of all others after a failed Use
	callbackFill      = pluginName + ":fill"
	callbackEnter     = pluginName + ":enter"
	callbackRefill    = pluginName + ":refill"
	callbackUpsert    = pluginName + ":upsert"
	callbackReconcile = pluginName + ":reconcile"
	callbackReset     = pluginName + ":reset"

	// An update saves associations too.
	callbackTrack = pluginName + ":track"

	gormBegin  = "gorm:begin_transaction"
	gormCommit = "gorm:commit_or_rollback_transaction"
)

// processor is what GORM has of one kind of statement; its type has no name outside of GORM.
type processor struct {
	register func(name, before string, run func(*gorm.DB)) error
	remove   func(name string) error
}

// step is a callback and its place.
type step struct {
	name, before string
	run          func(*gorm.DB)
}

// register adds the callbacks to db, all or none.
func (p *Plugin) register(db *gorm.DB, numbers *numbers) error {
	creates, updates := db.Callback().Create(), db.Callback().Update()
	if creates.Get(callbackFill) != nil {
		return nil // a copied configuration, or a second call
	}
	if creates.Get(callbackGuard) != nil {
		if err := creates.Remove(callbackGuard); err != nil {
			return fmt.Errorf("%w: %w", ErrCallbacks, err)
		}
	}
	f := &filler{plans: &p.plans, numbers: numbers}
	create := processor{
		func(name, before string, run func(*gorm.DB)) error {
			return creates.Before(before).Register(name, run)
		},
		creates.Remove,
	}
	update := processor{
		func(name, before string, run func(*gorm.DB)) error {
			return updates.Before(before).Register(name, run)
		},
		updates.Remove,
	}
	// Without the default transaction there is no commit, and GORM appends at the end, which is
	// the right place.
	if err := create.add(
		step{callbackFill, fillAnchor(db), f.fill},
		step{callbackEnter, "gorm:before_create", f.enter},
		step{callbackRefill, "gorm:save_before_associations", f.refill},
		step{callbackUpsert, "gorm:create", f.prepareUpsert},
		step{callbackReconcile, "gorm:save_after_associations", f.afterInsert},
		step{callbackReset, gormCommit, f.finish},
	); err != nil {
		return err
	}
	err := update.add(
		step{callbackTrack, "gorm:setup_reflect_value", f.track},
		step{callbackReset, gormCommit, f.finish},
	)
	if err != nil {
		create.drop(callbackFill, callbackEnter, callbackRefill, callbackUpsert, callbackReconcile, callbackReset)
	}
	return err
}

// add registers the steps, all or none. After a callback that it cannot put in order GORM would
// run none of the statement's callbacks at all, and report no error.
func (p processor) add(steps ...step) error {
	for i, step := range steps {
		err := p.register(step.name, step.before, step.run)
		if err == nil {
			continue
		}
		for _, done := range steps[:i+1] {
			p.drop(done.name)
		}
		return fmt.Errorf("%w: %s before %s: %w: a callback of the application that names %s must be "+
			"registered after db.Use of the plugin", ErrCallbacks, step.name, step.before, err, step.name)
	}
	return nil
}

// drop removes callbacks. While the one that is out of order is still there, each removal reports
// it anew; the last one restores the order.
func (p processor) drop(names ...string) {
	for _, name := range names {
		_ = p.remove(name)
	}
}

// fillAnchor is the callback that the fill runs before: the begin of the transaction, so that
// waiting for an ID holds no connection, and before the user's hooks. That callback exists only
// if the configuration wants default transactions; "before" a missing one would mean "at the end".
func fillAnchor(db *gorm.DB) string {
	if db.Callback().Create().Get(gormBegin) != nil {
		return gormBegin
	}
	return "gorm:before_create"
}

// guard refuses creates that need an ID on a database on which the plugin could not be put to
// work: an application that overlooks the error of Use would store rows with key 0.
func (p *Plugin) guard(db *gorm.DB, cause error) {
	creates := db.Callback().Create()
	if creates.Get(callbackGuard) != nil || creates.Get(callbackFill) != nil {
		return
	}
	refuse := func(db *gorm.DB) {
		plan := p.plans.planOf(db.Statement)
		if db.Error != nil || plan == nil || len(plan.columns) == 0 {
			return
		}
		fr := &frame{Context: db.Statement.Context, stmt: db.Statement, plan: plan}
		if err := fr.openRows(); err != nil || fr.rows == nil {
			_ = db.AddError(err)
			return
		}
		sent, unselected := sentColumns(fr)
		if empty, columns := fr.countVacant(sent | unselected); empty > 0 {
			_ = db.AddError(fmt.Errorf("%w: no ID for %s: db.Use failed: %w",
				ErrNotInUse, plan.names(columns), cause))
		}
	}
	if err := creates.Before(fillAnchor(db)).Register(callbackGuard, refuse); err != nil {
		_ = creates.Remove(callbackGuard) // creates must go on, if unguarded
	}
}
