// Package fill gives the rows of a GORM statement their IDs before the INSERT, and takes them back
// when the INSERT fails. [Register] puts its callbacks into a database. A [PlanCache] knows which
// fields of a model are filled, and [Numbers] is where the IDs come from. A statement's frame
// remembers what was done until the statement ends.
package fill

import (
	"fmt"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// PluginName is the name under which GORM knows the plugin, and the prefix of its callbacks.
const PluginName = "snowflake"

// IsInUse reports whether the callbacks are registered.
func IsInUse(db *gorm.DB) bool { return db.Callback().Create().Get(callbackFill) != nil }

// The plugin's callbacks. Those of creates are listed in the order in which they run.
const (
	callbackGuard     = PluginName + ":guard" // in place of all others after a failed Use
	callbackWatch     = PluginName + ":watch"
	callbackFill      = PluginName + ":fill"
	callbackEnter     = PluginName + ":enter"
	callbackInsert    = PluginName + ":before_insert"
	callbackReconcile = PluginName + ":reconcile"
	callbackReset     = PluginName + ":reset"

	// An update saves associations too.
	callbackTrack = PluginName + ":track"
)

// The callbacks of GORM that a create runs, in their order.
const (
	gormFirst       = "*" // before all that are placed in any other way
	gormBegin       = "gorm:begin_transaction"
	gormBeforeHooks = "gorm:before_create"
	gormSaveBefore  = "gorm:save_before_associations"
	gormInsert      = "gorm:create"
	gormSaveAfter   = "gorm:save_after_associations"
	gormAfterHooks  = "gorm:after_create"
	gormCommit      = "gorm:commit_or_rollback_transaction"
)

// chain has the callbacks of one kind of statement; GORM's type of it has no name outside of GORM.
type chain interface {
	Get(name string) func(*gorm.DB)
	Replace(name string, run func(*gorm.DB)) error
}

// processor adds and removes callbacks of one kind of statement.
type processor struct {
	register func(name, before string, run func(*gorm.DB)) error
	remove   func(name string) error
}

// step is a callback and its place.
type step struct {
	name, before string
	run          func(*gorm.DB)
}

// Register adds the callbacks to db, all or none. A second call does nothing. No row gets an ID in a database
// before notes has its note.
func Register(db *gorm.DB, plans *PlanCache, numbers *Numbers, notes *Notes) error {
	creates, updates := db.Callback().Create(), db.Callback().Update()
	if creates.Get(callbackFill) != nil {
		return nil // a copied configuration, or a second call
	}
	if creates.Get(callbackGuard) != nil {
		if err := creates.Remove(callbackGuard); err != nil {
			return fmt.Errorf("%w: %w", errs.ErrCallbacks, err)
		}
	}
	f := &filler{creates: creates, plans: plans, numbers: numbers, notes: notes}
	create := processor{
		func(name, before string, run func(*gorm.DB)) error {
			return creates.Match(f.changed).Before(before).Register(name, run)
		},
		creates.Remove,
	}
	update := processor{
		func(name, before string, run func(*gorm.DB)) error {
			return updates.Before(before).Register(name, run)
		},
		updates.Remove,
	}
	if !f.hasInsert() {
		return errNoInsert()
	}
	if err := create.add(
		step{callbackWatch, gormFirst, f.watch},
		step{callbackFill, first(db, gormBegin, gormBeforeHooks, gormSaveBefore, gormInsert), f.fillRows},
		step{callbackEnter, first(db, gormBeforeHooks, gormSaveBefore, gormInsert), f.noteTransaction},
		step{callbackInsert, gormInsert, f.beforeInsert},
		step{callbackReconcile, first(db, gormSaveAfter, gormAfterHooks, gormCommit), f.afterInsert},
		step{callbackReset, "", f.finish},
	); err != nil {
		return err
	}
	if err := update.add(
		step{callbackTrack, "gorm:setup_reflect_value", f.track},
		step{callbackReset, "", f.finish},
	); err != nil {
		create.drop(callbackWatch, callbackFill, callbackEnter, callbackInsert, callbackReconcile, callbackReset)
		return err
	}
	// An error after this point leaves open whether the rows are in the database. An error before it,
	// also one of a callback that the application puts right before it, means that they are not.
	for _, p := range []chain{creates, updates} {
		commit := p.Get(gormCommit)
		if commit == nil {
			continue // no default transactions
		}
		if err := p.Replace(gormCommit, func(db *gorm.DB) {
			f.finish(db)
			commit(db)
		}); err != nil {
			return fmt.Errorf("%w: %w", errs.ErrCallbacks, err)
		}
	}
	return nil
}

// add registers the steps, all or none. If GORM cannot put a callback in order, it runs none of the
// statement's callbacks at all and reports no error, so such a callback must not stay.
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
			"registered after db.Use of the plugin", errs.ErrCallbacks, step.name, step.before, err, step.name)
	}
	return nil
}

// drop removes callbacks. Each removal reports the callback that is out of order as long as that is
// still there. The last removal restores the order.
func (p processor) drop(names ...string) {
	for _, name := range names {
		_ = p.remove(name)
	}
}

// first returns the first of some callbacks of GORM that is there. The application may have removed
// some, and "before" a missing callback means "at the end". Without the default transaction there is
// none that begins it. The fill comes before the transaction, so that waiting for an ID holds no
// connection, and before the user's hooks.
func first(db *gorm.DB, names ...string) string {
	for _, name := range names {
		if db.Callback().Create().Get(name) != nil {
			return name
		}
	}
	return names[len(names)-1]
}

// Guard refuses creates that need an ID on a database where the plugin could not be put to work. An
// application that overlooks the error of Use would otherwise store rows with key 0.
func Guard(db *gorm.DB, plans *PlanCache, cause error) {
	creates := db.Callback().Create()
	if creates.Get(callbackGuard) != nil || creates.Get(callbackFill) != nil {
		return
	}
	if err := creates.Before(gormFirst).Register(callbackGuard, refuseEmpty(plans, cause)); err != nil {
		_ = creates.Remove(callbackGuard) // creates must go on, if unguarded
	}
}
