package snowflakeplugin

import (
	"fmt"

	"gorm.io/gorm"
)

// The plugin's callbacks in GORM's create processor, in the order in which they run.
const (
	callbackGuard     = pluginName + ":guard" // in place of all others after a failed Use
	callbackFill      = pluginName + ":fill"
	callbackEnter     = pluginName + ":enter"
	callbackRefill    = pluginName + ":refill"
	callbackUpsert    = pluginName + ":upsert"
	callbackReconcile = pluginName + ":reconcile"
	callbackReset     = pluginName + ":reset"
)

// register adds the callbacks to db, all or none.
func (p *Plugin) register(db *gorm.DB, numbers *numbers) error {
	creates := db.Callback().Create()
	if creates.Get(callbackFill) != nil {
		return nil // a copied configuration, or a second call
	}
	if creates.Get(callbackGuard) != nil {
		if err := creates.Remove(callbackGuard); err != nil {
			return fmt.Errorf("%w: %w", ErrCallbacks, err)
		}
	}
	f := &filler{plans: &p.plans, numbers: numbers}
	steps := []struct {
		name, before string
		run          func(*gorm.DB)
	}{
		{callbackFill, fillAnchor(db), f.fill},
		{callbackEnter, "gorm:before_create", f.enter},
		{callbackRefill, "gorm:save_before_associations", f.refill},
		{callbackUpsert, "gorm:create", f.prepareUpsert},
		{callbackReconcile, "gorm:save_after_associations", f.afterInsert},
		// Without the default transaction there is no such callback, and GORM appends at the
		// end, which is the right place.
		{callbackReset, "gorm:commit_or_rollback_transaction", f.finish},
	}
	for i, step := range steps {
		err := creates.Before(step.before).Register(step.name, step.run)
		if err == nil {
			continue
		}
		// GORM would now run no create callback at all, and report no error.
		for _, done := range steps[:i+1] {
			_ = creates.Remove(done.name) // the last one restores the order, the others may fail
		}
		return fmt.Errorf("%w: %s before %s: %w: a callback of the application that names %s must be "+
			"registered after db.Use of the plugin", ErrCallbacks, step.name, step.before, err, step.name)
	}
	return nil
}

// fillAnchor is the callback that the fill runs before: the begin of the transaction, so that
// waiting for an ID holds no connection, and before the user's hooks. That callback exists only
// if the configuration wants default transactions; "before" a missing one would mean "at the end".
func fillAnchor(db *gorm.DB) string {
	if db.Callback().Create().Get("gorm:begin_transaction") != nil {
		return "gorm:begin_transaction"
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
