// Package fill gives the rows of a GORM statement their IDs before the INSERT, and takes them back
// when the INSERT fails. [Register] puts its callbacks into a database. A [PlanCache] knows which
// fields of a model are filled, and [Numbers] is where the IDs come from. A statement's frame
// remembers what was done until the statement ends.
package fill

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

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

// step is a callback, its place, and what adds it and removes it.
type step struct {
	name, before string
	register     func() error
	remove       func(name string) error
}

// Register adds the callbacks to db, all or none. A second call does nothing. No row gets an ID in a database
// before notes has its note, and witnesses look at the rows that have refused a new key.
func Register(
	db *gorm.DB, plans *PlanCache, numbers *Numbers, notes *Notes, witnesses *Witnesses,
) error {
	creates, updates := db.Callback().Create(), db.Callback().Update()
	if creates.Get(callbackFill) != nil {
		return nil // a copied configuration, or a second call
	}
	if creates.Get(callbackGuard) != nil {
		if err := creates.Remove(callbackGuard); err != nil {
			return fmt.Errorf("%w: %w", errs.ErrCallbacks, err)
		}
	}
	f := &filler{creates: creates, plans: plans, numbers: numbers, notes: notes, witnesses: witnesses}
	create := func(name, before string, run func(*gorm.DB)) step {
		register := func() error { return creates.Match(f.changed).Before(before).Register(name, run) }
		return step{name, before, register, creates.Remove}
	}
	update := func(name, before string, run func(*gorm.DB)) step {
		register := func() error { return updates.Before(before).Register(name, run) }
		return step{name, before, register, updates.Remove}
	}
	if !f.hasInsert() {
		return errNoInsert()
	}
	if err := add(
		create(callbackWatch, gormFirst, f.watch),
		create(callbackFill, firstThere(db, gormBegin, gormBeforeHooks, gormSaveBefore, gormInsert), f.fillRows),
		create(callbackEnter, firstThere(db, gormBeforeHooks, gormSaveBefore, gormInsert), f.noteTransaction),
		create(callbackInsert, gormInsert, f.beforeInsert),
		create(callbackReconcile, firstThere(db, gormSaveAfter, gormAfterHooks, gormCommit), f.afterInsert),
		create(callbackReset, "", f.finish),
		update(callbackTrack, "gorm:setup_reflect_value", f.track),
		update(callbackReset, "", f.finish),
	); err != nil {
		return err
	}
	// An error after this point leaves open whether the rows are in the database. An error before it,
	// also one of a callback that the application puts right before it, means that they are not.
	for _, p := range []chain{creates, updates} {
		// Without default transactions there is neither of the two.
		if err := errors.Join(
			surround(p, gormBegin, func(db *gorm.DB, begin func(*gorm.DB)) {
				f.witnesses.bind(db)
				begin(db)
			}),
			surround(p, gormCommit, func(db *gorm.DB, commit func(*gorm.DB)) {
				f.finish(db)
				commit(db)
				f.witnesses.ask(db, f.notes.poolOf)
			}),
		); err != nil {
			return fmt.Errorf("%w: %w", errs.ErrCallbacks, err)
		}
	}
	return nil
}

// IsInUse reports whether the callbacks are registered.
func IsInUse(db *gorm.DB) bool { return db.Callback().Create().Get(callbackFill) != nil }

// surround replaces a callback of GORM, if it is there, by one that calls it.
func surround(p chain, name string, run func(db *gorm.DB, original func(*gorm.DB))) error {
	original := p.Get(name)
	if original == nil {
		return nil
	}
	return p.Replace(name, func(db *gorm.DB) { run(db, original) })
}

// add registers the steps, all or none. If GORM cannot put a callback in order, it runs none of the
// statement's callbacks at all and reports no error, so such a callback must not stay.
func add(steps ...step) error {
	for i, step := range steps {
		err := step.register()
		if err == nil {
			continue
		}
		for _, done := range steps[:i+1] {
			// Each removal reports the callback that is out of order as long as that is still there. The last
			// removal restores the order.
			_ = done.remove(done.name)
		}
		return fmt.Errorf("%w: %s before %s: %w: a callback of the application that names %s must be "+
			"registered after db.Use of the plugin", errs.ErrCallbacks, step.name, step.before, err, step.name)
	}
	return nil
}

// firstThere returns the first of some callbacks of GORM that is there. The application may have removed
// some, and "before" a missing callback means "at the end". Without the default transaction there is
// none that begins it. The fill comes before the transaction, so that waiting for an ID holds no
// connection, and before the user's hooks.
func firstThere(db *gorm.DB, names ...string) string {
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

// CheckShard returns the callback that looks at all rows once more, when they have their keys and hooks
// have run, right before they are inserted.
func CheckShard(plans *PlanCache) func(*gorm.DB) {
	return func(db *gorm.DB) {
		fr := plans.frames.find(db.Statement)
		if db.Error != nil || fr == nil || fr.rows == nil || fr.plan.shard == nil {
			return
		}
		_ = db.AddError(checkShard(fr))
	}
}

// filler has the callbacks of the plugin on one database. Its methods stand in the order in which
// GORM calls them for a create. An application may remove or replace callbacks of GORM, and then
// GORM puts those of the plugin that were placed before them at the end. So each method also does
// what an earlier one should have done.
type filler struct {
	creates   chain // of the database
	plans     *PlanCache
	numbers   *Numbers
	open      openFrames
	notes     *Notes
	witnesses *Witnesses
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
	KeepSchema(db.Statement)
	plan := f.plans.planOf(db.Statement)
	if plan == nil || !f.isReady(db, plan) || plan.isOneCell && f.fillOneCell(db, plan) {
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
	err := refuseRival(db, plan)
	if err == nil {
		err = f.notes.ensure(db, plan)
	}
	if err != nil {
		_ = db.AddError(plan.noID(1<<len(plan.columns)-1, err))
		return false
	}
	return true
}

// fillOneCell does the work of fillRows for a statement whose plan has one cell. It returns false if a
// frame has to do it: the statement is of another shape, or it may be below another create.
func (f *filler) fillOneCell(db *gorm.DB, plan *Plan) bool {
	stmt := db.Statement
	row := stmt.ReflectValue
	_, byColumn := f.numbers.columnSource()
	if byColumn || row.Kind() != reflect.Struct || !row.CanAddr() || row.Type() != plan.schema.ModelType ||
		len(stmt.Selects) > 0 || len(stmt.Omits) > 0 || len(stmt.Clauses) > 0 || stmt.Context == nil ||
		f.open.count.Load() > 0 || !f.inserts.Load() {
		return false
	}
	cell := row.Field(plan.columns[0].direct)
	if cell.Int() != 0 {
		return true
	}
	p := f.plans.frames.slotOf(stmt)
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
	p.one.row, p.one.id = row, id
	return true
}

// fillFrame is fillRows for a statement of any shape.
func (f *filler) fillFrame(db *gorm.DB, plan *Plan) {
	if plan.err != nil {
		_ = db.AddError(plan.err)
		return
	}
	if len(plan.columns) == 0 && !plan.reachesTagged(db) {
		return
	}
	if len(plan.columns) > 0 && !f.hasInsert() { // the application may have removed watch as well
		_ = db.AddError(errNoInsert())
		return
	}
	fr := f.plans.frames.open(db.Statement, plan)
	f.open.adopt(fr)
	if len(plan.columns) > 0 {
		err := fr.openRows()
		if err == nil {
			err = assign(fr, f.numbers)
		}
		_ = db.AddError(err)
	}
	f.open.add(fr)
}

// frameOf returns the frame of a statement, or nil. A statement that has one cell gets a frame, because what
// comes next is not what most of them need.
func (f *filler) frameOf(db *gorm.DB) *frame {
	if p := f.plans.frames.oneCellOf(db.Statement); p != nil {
		return f.plans.frames.widen(p, f.plans.planOf(db.Statement))
	}
	return f.plans.frames.find(db.Statement)
}

// noteTransaction remembers the transaction once it has begun, before hooks create rows in it.
func (f *filler) noteTransaction(db *gorm.DB) {
	if fr := f.plans.frames.find(db.Statement); fr != nil {
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
		f.beforeFrame(db)
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

// beforeFrame is beforeInsert for a statement that has a frame or needs one.
func (f *filler) beforeFrame(db *gorm.DB) {
	fr := f.frameOf(db)
	if fr == nil {
		f.fillRows(db)
		if fr = f.frameOf(db); fr == nil || db.Error != nil {
			return
		}
	} else if fr.plan.refills && !db.Statement.SkipHooks {
		if field := fr.replaced(); field != nil && f.plans.Watcher.Replaced != nil {
			f.plans.Watcher.Replaced(fr.plan, field)
		}
		if err := assign(fr, f.numbers); err != nil {
			_ = db.AddError(err)
			return
		}
	}
	f.open.add(fr)
	if fr.rows == nil {
		return
	}
	f.open.inherit(fr)
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

// prepareUpsert changes a statement with ON CONFLICT so that it obeys the rule above, and notes what has to
// be looked at afterwards.
func (f *filler) prepareUpsert(db *gorm.DB, fr *frame) {
	stmt := db.Statement
	conflict, ok := conflictOf(stmt)
	if !ok {
		return
	}
	j := newJudge(fr)
	if j == nil || isShardingPool(stmt.ConnPool) && len(j.given) > 0 {
		fr.upsert = newUpsert(db, fr, conflict)
		return
	}
	fr.judge = j
	j.sent = &sentStatement{}
	j.sent.conflict, j.sent.present = stmt.Clauses[clauseOnConflict]
	ignores := insertIgnores(stmt)
	alone := !ignores && isAboutKey(db, fr, conflict)
	if alone && len(j.given) == 0 {
		delete(stmt.Clauses, clauseOnConflict)
		j.send(stmt, fr, j.rows)
		return
	}
	if fr.upsert = newUpsert(db, fr, conflict); db.Error != nil || isShardingPool(stmt.ConnPool) {
		return
	}
	if !dialect.Kind(db.Name()).HasTarget() {
		j.guardDuplicates(stmt, fr)
		j.send(stmt, fr, fr.unrepeated(j))
		return
	}
	current := resolved(db, conflict)
	switch meetsKey := !isAboutOther(fr.plan.schema, conflict); {
	case db.Error != nil:
	case !current.DoNothing:
		if meetsKey {
			j.guardUpdates(stmt, fr, current)
		}
		j.counts = ignores
		j.send(stmt, fr, fr.unrepeated(j))
	case len(j.given) == 0 || !meetsKey || db.DryRun || fr.rebuilds(db):
		j.counts = true
		j.countExactly(db, fr)
		j.send(stmt, fr, fr.unrepeated(j))
	default:
		if f.insertApart(db, fr, j.given); db.Error != nil {
			return
		}
		if j.counts = !alone; j.counts {
			j.countExactly(db, fr)
		} else {
			delete(stmt.Clauses, clauseOnConflict)
			fr.upsert = fr.upsert.without(j.rows)
		}
		j.send(stmt, fr, j.rows)
	}
	if fr.upsert != nil {
		fr.upsert.sent = fr.rows.count() - j.repeats
	}
}

// isAboutKey reports whether rows with new keys need no clause. Either its target is the primary key, or GORM
// has put it there for an association, and the model has no other key that the clause could be for.
func isAboutKey(db *gorm.DB, fr *frame, conflict clause.OnConflict) bool {
	others := len(fr.plan.uniqueIndexes()) > 0
	if targetsPrimaryKey(fr.plan.schema, conflict) {
		return dialect.Kind(db.Name()).HasTarget() || !others
	}
	return !others && isAssociation(db.Statement, conflict)
}

// insertApart inserts some rows by a statement of their own, as the application has asked for. Hooks and
// associations are the matter of the statement of all rows.
func (f *filler) insertApart(db *gorm.DB, fr *frame, rows []int) {
	began := time.Now()
	apart := db.Session(&gorm.Session{Initialized: true})
	part := fr.rows.part(rows)
	apart.Statement.Dest, apart.Statement.ReflectValue = part.dest, part.value
	apart.Statement.BuildClauses = db.Statement.BuildClauses
	f.creates.Get(gormInsert)(apart)
	trace(db, apart.Statement, began, apart.RowsAffected, apart.Error)
	if apart.Error != nil {
		db.Error = apart.Error
		return
	}
	fr.judge.apart, fr.judge.sent.affected = true, apart.RowsAffected
}

// afterInsert brings IDs and rows together, before associations copy the keys.
func (f *filler) afterInsert(db *gorm.DB) {
	before := db.Error
	if p := f.plans.frames.oneCellOf(db.Statement); p != nil && before == nil {
		translated(db, p.config)
		p.config, p.one.sending, p.one.inserted = nil, false, !db.DryRun
		return
	}
	fr := f.frameOf(db)
	if fr == nil || fr.rows == nil {
		return
	}
	f.afterFrame(db, fr)
	if errors.Is(db.Error, errs.ErrContested) && !errors.Is(before, errs.ErrContested) {
		f.suspect(db, f.sentKeysOf(fr, db))
	}
}

// suspect has the rows looked at that may have refused those of a statement.
func (f *filler) suspect(db *gorm.DB, rows []sentRow) {
	pool, _ := f.notes.poolOf(db.Statement.ConnPool)
	f.witnesses.note(db, questionOf(db, pool, rows))
}

// afterFrame is afterInsert for a statement that has a frame.
func (f *filler) afterFrame(db *gorm.DB, fr *frame) {
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
		if err := reconcile(db, fr, upsert); err != nil {
			_ = db.AddError(fmt.Errorf("snowflakeplugin: read the IDs of upserted %s back: %w",
				fr.plan.schema.Name, err))
		}
		if db.Error != nil {
			return
		}
	}
	fr.inserted = true
	f.open.bequeath(fr)
}

// judgeError says in the error of a failed INSERT that its new key is contested, if it is. original is what
// plainErrors has returned.
func (f *filler) judgeError(db *gorm.DB, fr *frame, original *gorm.Config) {
	cause := db.Error
	translated(db, original)
	refused, is := refusalOf(db, fr, cause)
	if !is {
		f.doubt(db, fr, cause)
		return
	}
	keys, is := fr.refusedKeys(db, refused)
	if is {
		setError(db, contested(db, keys, fr.state(db), db.Error))
		if column := fr.judged(db).column; column.source != nil {
			setError(db, fmt.Errorf("the keys of %s come from %s: %w",
				fr.plan.schema.Name, column.source, db.Error))
		}
	}
}

// reconcile gives every doubtful cell the ID that is in the database, or no ID.
func reconcile(db *gorm.DB, fr *frame, upsert *upsert) error {
	if fr.rebuilds(db) {
		return nil // GORM has made the slice anew, of the rows that came back
	}
	for _, cell := range upsert.cells {
		if cell.given {
			continue
		}
		if err := fr.rows.put(cell.row, cell.column, cell.id); err != nil {
			return err
		}
	}
	// Without RETURNING the affected rows are the inserted ones. If all were inserted, no row met
	// another. MySQL counts in another way.
	_, returns := db.Statement.Clauses[clauseReturning]
	if upsert.conflict.DoNothing && !returns && db.Name() != dialect.MySQL &&
		(db.RowsAffected == int64(upsert.sent) || fr.judge.allInserted(upsert)) {
		return nil
	}
	search := newSearch(db, fr, upsert)
	for _, key := range searchKeys(db, fr, upsert.conflict) {
		if err := search.findBy(key); err != nil {
			return err
		}
		if key.own && fr.judge.exceeds(db, fr, search) {
			return nil
		}
	}
	// A row that was not found is not there, so its ID would be a phantom.
	for _, cell := range upsert.cells {
		if search.missing(cell.row) && !cell.given {
			fr.rows.restore(cell.row, cell.column)
		}
	}
	return nil
}

// finish takes the IDs back if the statement failed, and ends the frame.
func (f *filler) finish(db *gorm.DB) {
	defer f.witnesses.ask(db, f.notes.poolOf)
	if p := f.plans.frames.oneCellOf(db.Statement); p != nil && db.Error == nil {
		translated(db, p.config) // unless the application has removed what comes before
		p.config, p.one = nil, oneCell{}
		p.stmt.Store(nil)
		return
	}
	fr := f.frameOf(db)
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
	KeepSchema(db.Statement)
	if plan := f.plans.planOf(db.Statement); plan != nil && plan.reachesTagged(db) {
		fr := f.plans.frames.open(db.Statement, plan)
		f.open.adopt(fr)
		f.open.add(fr)
	}
}

// A number of a source that was just taken, and that a unique index has refused, is a witness for its source
// as a key is for the node: the counter may have gone back, or somebody else gives out the same numbers.

// Doubter is an optional ability of a [Source]: it wants to know that somebody else has one of its numbers.
// It must not wait, and is told no number that another column has refused.
type Doubter interface{ Refused(number int64) }

// doubt finds out whether a failed INSERT was refused for numbers that sources have made for it. It says so
// in the error, and has the rows looked at that have them.
func (f *filler) doubt(db *gorm.DB, fr *frame, cause error) {
	d, is := duplicateOf(db.Statement, cause)
	if !is {
		return
	}
	index := d.fields(fr.plan)
	var rows []sentRow
	var numbers []string
	var words string
	for c, column := range fr.plan.columns {
		if !fr.mask.has(c) || !f.isForeign(column) || index != nil && !slices.Contains(index, column.field) {
			continue
		}
		columns := index
		if columns == nil {
			columns = []*schema.Field{column.field}
		}
		for i := range fr.rows.count() {
			id, ok := fr.get(i, c)
			if !ok || !fr.made(c, id) || column.kind != kindBytes && !d.has(column.textOf(id)) {
				continue
			}
			row := sentRowAt(fr, i, id)
			row.columns, row.tell = columns, f.teller(column)
			rows, numbers = append(rows, row), append(numbers, column.textOf(id))
			words = fr.plan.names(1 << c)
			if column.source != nil {
				words += ", which come from " + column.source.String()
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	if !errors.Is(db.Error, errs.ErrContested) {
		setError(db, fmt.Errorf("snowflakeplugin: a row of %s has one of the numbers already that were just "+
			"taken for %s: %s. Unless somebody has set it by hand, the counter went back, or another store gives "+
			"out the same numbers. The numbers that are left are given up, so the next create has others, or "+
			"tells what is wrong: %w", db.Statement.Table, words, errs.Listed(numbers, ", "), db.Error))
	}
	f.suspect(db, rows)
}

// isForeign reports whether the numbers of a column are not those of the plugin's own generator.
func (f *filler) isForeign(c *column) bool { return c.source != nil || f.numbers.generator == nil }

// teller returns who wants to know that somebody else has a number of a column; nil if nobody does.
func (f *filler) teller(c *column) func(table string, id int64) {
	if !f.isForeign(c) {
		return f.witnesses.tell
	}
	source := f.numbers.source
	if c.source != nil {
		source = c.source.source
	}
	if doubter, ok := source.(Doubter); ok {
		return func(_ string, id int64) { doubter.Refused(id) }
	}
	return nil
}

// sentKeysOf lists the rows of a statement that have new keys. GORM may have replaced the rows by those that
// came back, and then nobody knows what was sent.
func (f *filler) sentKeysOf(fr *frame, db *gorm.DB) (rows []sentRow) {
	j := fr.judged(db)
	if j == nil || j.values != nil {
		return nil
	}
	for n, i := range j.rows {
		row := sentRowAt(fr, i, j.keys[n].id)
		row.columns, row.tell = fr.plan.schema.PrimaryFields, f.teller(fr.plan.columns[j.keys[n].column])
		rows = append(rows, row)
	}
	return rows
}
