package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// yearsOfWarning is how many years before the end of its layout the plugin begins to warn.
const yearsOfWarning = 5

// Plugin fills the fields tagged snowflake:"true" of every row that GORM creates. Make one with
// [New], pass it to db.Use, and share it: one plugin may serve several *gorm.DB, and all their
// rows then have IDs of one series. It must not be copied. Its methods are safe for concurrent
// use, but call db.Use at start-up, because GORM itself does not guard it.
type Plugin struct {
	config    config
	configErr error
	plans     *fill.PlanCache
	engine    *fill.Engine
	closed    atomic.Bool
	used      sync.Map // has the *gorm.Config of every database on which db.Use was called
	said      sync.Map // has every saying of warn

	contest   contest
	witnesses *fill.Witnesses

	fallback atomic.Pointer[slog.Logger] // see log

	// busy is held while a node is got or given back, which may take long.
	busy chan struct{}
	node atomic.Pointer[node]
}

var _ gorm.Plugin = (*Plugin)(nil)

// New returns a plugin. It does nothing yet and cannot fail: faults in the options surface in
// Initialize, that is, in the error of db.Use.
func New(opts ...Option) *Plugin {
	p := &Plugin{busy: make(chan struct{}, 1)}
	p.config, p.configErr = configure(opts)
	digits := maxDigits
	if p.configErr == nil && p.config.source == nil {
		digits = fill.DigitsOf(p.config.layoutOrDefault())
	}
	p.witnesses = fill.NewWitnesses(p.witness)
	named := p.config.named
	if named == nil {
		named = map[string]fill.Source{}
	}
	p.plans = fill.NewPlans(digits, func(n int64) any { return ID(n) }, named)
	p.plans.Models = p.config.models
	p.plans.Watcher = fill.Watcher{
		Planned: p.warnOfRounding, Replaced: p.warnOfHook, Counted: p.warnOfCounting,
	}
	p.engine = &fill.Engine{
		Plans:   p.plans,
		Numbers: func(ctx context.Context) (*fill.Numbers, error) { return p.numbers(ctx, nil) },
		Generator: func() *generator.Generator {
			if n := p.node.Load(); n != nil {
				return n.generator
			}
			return nil
		},
	}
	return p
}

// Name returns "snowflake", the name under which GORM registers the plugin.
func (p *Plugin) Name() string { return fill.PluginName }

// Initialize puts the plugin to work on db. GORM calls it from db.Use, and calling it again on the
// same database does nothing. The first call gets the node number: unless WithNode gives it, the
// number is leased, which takes a few requests to the store. They end with the context of db, and by
// themselves after half a minute. Once the plugin is in use, the application may register callbacks
// of its own beside the plugin's: Before("snowflake:fill") runs before the IDs are there, and
// After("snowflake:fill").Before("gorm:create") runs when they are.
//
// Initialize also puts a dialector around that of the driver in db.Dialector, so that db.AutoMigrate makes
// plain columns of tagged keys. See [WithoutDialector].
//
// Initialize notes in db where its IDs come from, in the table snowflake_authority, and refuses a
// database whose IDs come from somewhere else. If db is read-only, the first create notes it, on another
// connection than its own, and creates are refused with [ErrAuthority] until it is noted. Each further source
// of dbresolver is noted in the same way by the first create that goes there. Nothing is ever written to a
// replica. Under WithSource nothing is noted.
//
// It returns an error wrapping lease.ErrStore when the database does not answer, also if the number is given
// by hand. It returns one wrapping [ErrOptions], also when one *gorm.Config is passed to gorm.Open twice,
// [ErrAuthority], [ErrCallbacks], [ErrClosed], or [ErrNoNode] when no number could be leased; that wraps the
// error of package lease or gormlease, which says why and what to do. After an error no ID is filled on db
// until Use succeeds; so that this cannot go unnoticed, creates that need one are refused with [ErrNotInUse]
// until then.
func (p *Plugin) Initialize(db *gorm.DB) error {
	p.logsTo(db)
	// gorm.Open calls Initialize for the plugins that it finds in a configuration, and dbresolver opens
	// its sources with copies of one. Only db.Use registers the plugin after it calls Initialize.
	_, registered := db.Plugins[p.Name()]
	if _, used := p.used.Load(db.Config); used && registered && !fill.IsInUse(db) {
		return fmt.Errorf("%w: one *gorm.Config was passed to gorm.Open twice, so the first *gorm.DB now goes "+
			"to the second database: pass each gorm.Open a *gorm.Config of its own", errs.ErrOptions)
	}
	if db.Statement == nil {
		err := fmt.Errorf("%w: db.Use was called before gorm.Open had ended, as by a dialector: call it on the "+
			"*gorm.DB that gorm.Open returns, at start-up", errs.ErrOptions)
		fill.Guard(db, p.plans, err)
		return err
	}
	if fill.InTransaction(db.Statement.ConnPool) && !fill.InTransaction(db.ConnPool) {
		err := fmt.Errorf("%w: db.Use was called on a transaction, whose locks would keep the node number from "+
			"being leased: call it on the *gorm.DB of gorm.Open, at start-up", errs.ErrOptions)
		fill.Guard(db, p.plans, err)
		return err
	}
	// A handle of gorm.Open may be one of a replica, to which nobody may write. Its first create notes the
	// rest.
	later := registered && p.node.Load() != nil
	numbers, err := p.numbers(db.Statement.Context, db)
	notes := fill.NewNotes(nil, noteNumbers(&p.config, p.node.Load, db))
	if n := p.node.Load(); err == nil && n != nil {
		notes = fill.NewNotes(n.notes(db), noteNumbers(&p.config, p.node.Load, db))
		if !later {
			err = n.noteOwn(db, notes)
		}
	}
	if err == nil {
		err = fill.Register(db, p.plans, numbers, notes, p.witnesses)
	}
	if err != nil {
		fill.Guard(db, p.plans, err)
		return err
	}
	if !registered {
		p.used.Store(db.Config, true)
	}
	if !p.config.bare && db.Dialector != nil {
		db.Dialector = p.plans.Dialector(db.Dialector)
	}
	p.warnOfEnd()
	return nil
}

// NextID returns a new ID of the same series that the rows get. It serves uses beside GORM, and
// programs that have to know the ID of a row before they create it. Before the first db.Use it works
// if the options say where the node number comes from. It returns the errors of
// [generator.Generator.Next], [ErrClosed], and those of Initialize about options and the node.
func (p *Plugin) NextID(ctx context.Context) (ID, error) {
	numbers, err := p.numbers(ctx, nil)
	if err != nil {
		return 0, err
	}
	id, err := numbers.Next(ctx)
	return ID(id), err
}

// NextIDs sets every element of ids to a new ID of that series, in ascending order, with one
// reservation for all. If it fails, ids stays as it was. The errors are those of NextID.
func (p *Plugin) NextIDs(ctx context.Context, ids []ID) error {
	numbers, err := p.numbers(ctx, nil)
	if err != nil {
		return err
	}
	fresh := make([]int64, len(ids))
	if err := numbers.Take(ctx, fresh); err != nil {
		return err
	}
	for i, id := range fresh {
		ids[i] = ID(id)
	}
	return nil
}

// NextLike returns a new ID of that series that lies on the shard of key, for the number of shards
// of [WithShards] and for every divisor of it. So a row with that ID is colocated with the row of
// key. In addition to the errors of NextID it returns one wrapping [ErrInvalidID] if key is not
// greater than 0, and one wrapping [ErrSource] under [WithSource], because a source cannot choose
// shards.
func (p *Plugin) NextLike(ctx context.Context, key ID) (ID, error) {
	if key <= 0 {
		return 0, fmt.Errorf("%w: %d is on no shard: IDs are greater than 0", ErrInvalidID, key.Int64())
	}
	numbers, err := p.numbers(ctx, nil)
	if err != nil {
		return 0, err
	}
	id, err := numbers.NextLike(ctx, key.Int64())
	return ID(id), err
}

// Layout returns how the plugin's IDs are packed. Under [WithSource] the plugin does not know that,
// and returns the zero Layout.
func (p *Plugin) Layout() generator.Layout {
	if p.config.source != nil {
		return generator.Layout{}
	}
	return p.config.layoutOrDefault()
}

// Range returns the bounds of the IDs that were made from one time on and before another: such an
// ID is at least lo and less than hi, so "id >= lo AND id < hi" selects the rows of that time by
// their key alone. Times are rounded up to ticks of the layout. IDs may be up to ten ticks ahead of
// the clock, so for "until now" leave hi out.
//
// It returns the errors of [generator.Layout.Range], and one wrapping generator.ErrInvalidLayout
// under [WithSource]: call Range of the layout there.
func (p *Plugin) Range(earliest, limit time.Time) (lo, hi ID, err error) {
	if p.config.source != nil {
		return 0, 0, fmt.Errorf("%w: the plugin does not know that of a source (WithSource, snowflaketest): "+
			"call Range of the generator.Layout that made the IDs", generator.ErrInvalidLayout)
	}
	low, high, err := p.Layout().Range(earliest, limit)
	return ID(low), ID(high), err
}

// Prepare checks models before their first create, and the models that they have relations to. Call it after
// db.Use. It checks every tagged field, and it tells GORM that tagged integer keys are plain columns:
// otherwise GORM takes a plain int64 primary key for an auto-increment one, gives it such a column, and reads
// it back after every INSERT. AutoMigrate and the first create do the same for their models, so Prepare is
// for programs that want to know of faults when they start, and for those with [WithoutDialector].
//
// On a handle with db.Table("x") it prepares the model for that table, too, also if the handle has the table
// by Scopes.
//
// On TiDB it warns, once for each model, about a table whose rows are stored in the order of their IDs. For
// that it makes one query. On other databases it makes none.
//
// It also warns, once for each, about a column that gets numbers of a counter and has no unique index, with
// the tag that adds one.
//
// It returns an error wrapping [ErrInvalidField] that lists the faults of all models, or what
// GORM says of a model that it cannot parse.
func (p *Plugin) Prepare(db *gorm.DB, models ...any) error {
	if p.configErr != nil {
		return p.configErr
	}
	var faults []error
	p.logsTo(db)
	db = scoped(db)
	seen := map[*schema.Schema]bool{}
	for _, model := range models {
		faults = append(faults, p.prepare(db, model, "", seen))
		// The model has a schema of its own for another table.
		if db.Statement.Table != "" {
			faults = append(faults, p.prepare(db, model, db.Statement.Table, seen))
		}
	}
	return errors.Join(faults...)
}

// AutoMigrate is db.AutoMigrate for programs with [WithoutDialector]. Without that option db.AutoMigrate does
// the same: it makes plain columns of tagged keys, in related models as well, and leaves out of SQLite's
// tables what would count keys by itself. It returns an error wrapping [ErrInvalidField] for a model whose
// tags are at fault, before the table of that model is made.
func (p *Plugin) AutoMigrate(db *gorm.DB, models ...any) error {
	if p.configErr != nil {
		return p.configErr
	}
	db = db.Session(&gorm.Session{})
	db.Dialector = p.plans.Dialector(db.Dialector) // in this session's copy of the configuration
	return db.AutoMigrate(models...)
}

// scoped returns the handle that the migrator of a handle works on. GORM runs the scopes of a handle for its
// statements and for its migrator only, so a dialector in place of the handle's own takes what a migrator
// gets.
func scoped(db *gorm.DB) *gorm.DB {
	probe := db.Session(&gorm.Session{}) // the handle keeps its scopes
	seen := &migratorProbe{Dialector: db.Dialector}
	probe.Dialector = seen
	probe.Migrator()
	seen.db.Dialector = db.Dialector
	return seen.db
}

// migratorProbe is a dialector that notes the handle in place of making a migrator.
type migratorProbe struct {
	gorm.Dialector
	db *gorm.DB
}

func (p *migratorProbe) Migrator(db *gorm.DB) gorm.Migrator {
	p.db = db
	return nil
}

// prepare makes the plans of a model, for its own table or for another one, and of the models that it has
// relations to, unless they were seen before.
func (p *Plugin) prepare(db *gorm.DB, model any, table string, seen map[*schema.Schema]bool) error {
	stmt := &gorm.Statement{DB: db}
	if err := stmt.ParseWithSpecialTableName(model, table); err != nil {
		return fmt.Errorf("snowflakeplugin: prepare %T: %w", model, err)
	}
	if seen[stmt.Schema] {
		return nil
	}
	seen[stmt.Schema] = true
	plan, err := p.plans.Prepare(stmt.Schema)
	if err == nil {
		p.warnOfHotRegion(db, stmt.Schema, plan)
		p.warnOfUnguarded(stmt.Schema, plan)
	}
	faults := []error{err}
	for _, related := range fill.Related(stmt.Schema) {
		faults = append(faults, p.prepare(db, reflect.New(related.ModelType).Interface(), "", seen))
	}
	return errors.Join(faults...)
}

// saying is a text of a warning, and the model or the column that it is about.
type saying struct {
	text  string
	about any
}

// warn says something about a model or a column, once.
func (p *Plugin) warn(about any, text string, args ...any) {
	if _, said := p.said.LoadOrStore(saying{text, about}, true); !said {
		p.log().Warn("snowflakeplugin: "+text, args...)
	}
}

// warnOfUnguarded warns, once for each column, that nothing refuses a number that a counter gives twice.
func (p *Plugin) warnOfUnguarded(s *schema.Schema, plan *fill.Plan) {
	for _, field := range plan.Unguarded() {
		tag := "uniqueIndex"
		if settings := field.Tag.Get("gorm"); settings != "" {
			tag = settings + ";" + tag
		}
		p.warn(field, "this column gets numbers of a counter and has no unique index. "+
			"The index would refuse a number that is given twice, after a failover or by a second counter, and "+
			"would tell the source so; add the tag, unless numbers may repeat here",
			"field", s.Name+"."+field.Name, "table", s.Table, "tag", fmt.Sprintf("gorm:%q", tag))
	}
}

// exactBits is how many bits of an integer a number of JavaScript, and of every float64, has.
const exactBits = 53

// warnOfRounding warns, once for each model, that its keys are numbers in JSON which many readers round.
func (p *Plugin) warnOfRounding(plan *fill.Plan) {
	l, s := p.config.layoutOrDefault(), plan.Schema()
	if p.config.jsonNumbers || p.config.source != nil || l.TimeBits+l.NodeBits()+l.SequenceBits <= exactBits {
		return
	}
	fields := fill.NumbersInJSON(plan)
	if len(fields) == 0 {
		return
	}
	p.warn(s.ModelType, "JSON writes this ID as a number of more than 53 bits, which JavaScript and "+
		"many other readers round, often to the key of another row. Give the field the type "+
		"snowflakeplugin.ID, which is text in JSON, or make IDs of 53 bits, by "+
		"WithLayout(generator.JavaScript()). If all who read the JSON keep such numbers, say so by "+
		"WithJSONNumbers()", "field", s.Name+"."+fields[0].Name, "type", fields[0].FieldType.String(),
		"table", s.Table)
}

// warnOfHook warns, once for each model, that a hook of the application makes its keys.
func (p *Plugin) warnOfHook(plan *fill.Plan, field *schema.Field) {
	s := plan.Schema()
	p.warn(s.ModelType, "a hook of the model (BeforeCreate or BeforeSave) has put another value in place of "+
		"the ID that was made for this field, so its values are not those of the plugin. Delete the hook, or "+
		"the tag of the field", "field", s.Name+"."+field.Name, "table", s.Table)
}

// warnOfCounting warns, once for each model, that its table still makes the keys that the plugin fills.
func (p *Plugin) warnOfCounting(plan *fill.Plan, field *schema.Field) {
	s := plan.Schema()
	p.warn(s.ModelType, "the database makes a value for this column where a row has none (by nextval, an "+
		"identity, AUTO_INCREMENT or a rowid), so a program without the plugin goes on counting. AutoMigrate "+
		"does not change that: run what the command \"snowflake migrate\" prints (docs/migrating.md)",
		"table", s.Table, "column", field.DBName, "field", s.Name+"."+field.Name)
}

// witness is told of a row of somebody else.
func (p *Plugin) witness(table string, id int64) {
	n := p.node.Load()
	parts, err := p.config.layoutOrDefault().Decompose(id)
	if n == nil || err != nil {
		return
	}
	w := witness{table, id, parts.Node, time.Now()}
	again, say := p.contest.add(w)
	if say {
		p.log().Error("snowflakeplugin: somebody else makes the same IDs; look for a second program "+
			"with the node number, such as a copied machine or a restored database", "table", table, "key", id,
			"node", parts.Node)
	}
	if again && n.keeper != nil {
		n.keeper.Contest(parts.Node, fmt.Errorf("%w: %s", ErrContested, w))
	}
}

// Close ends the plugin. From then on whatever needs an ID fails with [ErrClosed], and creates that
// already have their IDs go on. Close then gives a leased node number back, so that another process
// can have it at once. Call it when the last create is done and before the database is closed. A
// process that ends without it leaves its number taken for the rest of the window, at most a span.
//
// It returns an error wrapping lease.ErrStore when the number could not be given back, after 5 s at the
// latest, and may be called again then. After it has succeeded it does nothing.
func (p *Plugin) Close(ctx context.Context) error {
	p.closed.Store(true)
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
	if n := p.node.Load(); n != nil {
		return n.close(ctx)
	}
	return nil
}

// Stats returns what the plugin's generator has done so far, and where its lease stands. It is the
// zero Stats before the first use, and with WithSource.
func (p *Plugin) Stats() generator.Stats {
	if n := p.node.Load(); n != nil {
		return n.generator.Stats()
	}
	return generator.Stats{}
}

// Health returns how the plugin is, in every mode. It asks neither the store nor the database, so a
// readiness probe may call it as often as it likes. An ended ctx changes nothing.
func (p *Plugin) Health(_ context.Context) Health {
	h := p.health()
	add := func(name string, source any) {
		if s, ok := source.(interface{ Stats() segment.Stats }); ok {
			if h.Sources == nil {
				h.Sources = make(map[string]segment.Stats)
			}
			h.Sources[name] = s.Stats()
		}
	}
	for name, source := range p.config.named {
		add(name, source)
	}
	add("", p.config.source)
	return h
}

// health is that of the plugin without its sources.
func (p *Plugin) health() Health {
	n := p.node.Load()
	switch {
	case p.closed.Load():
		h := Health{State: stateClosed}
		if n != nil {
			h.Node = n.generator.Stats().Node
		}
		return h
	case p.configErr != nil:
		return Health{State: stateIdle, LastError: p.configErr}
	case p.config.source != nil:
		return Health{State: stateSource, Ready: true}
	case n == nil:
		return Health{State: stateIdle}
	}
	h := n.health()
	if w, is := p.contest.lastOf(h.Node); is && h.Ready {
		h.State, h.Contested = stateContested, w.String()
	}
	if stats := n.generator.Stats(); h.Ready && stats.YearsLeft <= 0 {
		h.Ready, h.LastError = false, generator.ErrTimeExhausted
	}
	return h
}

// numbers returns where IDs come from, getting a node on first use: from db, or without one if db
// is nil.
func (p *Plugin) numbers(ctx context.Context, db *gorm.DB) (*fill.Numbers, error) {
	switch {
	case p.configErr != nil:
		return nil, p.configErr
	case p.config.source != nil:
		return fill.NewNumbers(p.config.source, nil, &p.closed, nil), nil
	}
	n := p.node.Load()
	if n == nil || db != nil && n.isHomeless() {
		var err error
		if n, err = p.firstNode(ctx, db); err != nil {
			return nil, err
		}
	}
	return fill.NewNumbers(n.generator, n.generator, &p.closed, n.whyClosed), nil
}

// firstNode gets the node, if nobody else has meanwhile. One whose database was closed makes way for one of
// the database that is put to use.
func (p *Plugin) firstNode(ctx context.Context, db *gorm.DB) (*node, error) {
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		return nil, errs.Ended(ctx)
	}
	old := p.node.Load()
	if old != nil && (db == nil || !old.isHomeless()) {
		return old, nil
	}
	if p.closed.Load() {
		return nil, errs.ErrClosed
	}
	if old != nil {
		if err := old.replace(ctx); err != nil {
			return nil, err
		}
	}
	c := p.config
	c.logger = p.log()
	n, err := newNode(ctx, c, db)
	if err != nil {
		return nil, err
	}
	n.start() //nolint:contextcheck // the look for the end of the pool outlives the call
	p.node.Store(&n)
	return &n, nil
}

// log is where the plugin reports: to the logger of its options, and otherwise only what somebody must know.
// That goes where GORM logs, or, as long as no database is known, to slog's default.
func (p *Plugin) log() *slog.Logger {
	if p.config.logger != nil {
		return p.config.logger
	}
	if fallback := p.fallback.Load(); fallback != nil {
		return fallback
	}
	return slog.New(warnings{slog.Default().Handler()})
}

// logsTo makes the logger of a handle the one of the plugin, unless there is one.
func (p *Plugin) logsTo(db *gorm.DB) {
	if db.Config != nil && db.Logger != nil && p.fallback.Load() == nil {
		p.fallback.CompareAndSwap(nil, slog.New(warnings{gormLog{output: db.Logger}}))
	}
}

// warnOfEnd warns in good time that the layout runs out of time bits.
func (p *Plugin) warnOfEnd() {
	stats := p.Stats()
	if stats.End.IsZero() || stats.YearsLeft > yearsOfWarning {
		return
	}
	p.log().Warn("snowflakeplugin: the time bits of the layout are nearly used up; plan a layout with "+
		"more",
		"layout", p.config.layoutOrDefault().Name, "end", stats.End, "years_left", stats.YearsLeft)
}

// engineOf returns what a router needs of the plugin that a database uses, or nil if it uses none.
func engineOf(db *gorm.DB) *fill.Engine {
	if plugin, ok := db.Plugins[fill.PluginName].(*Plugin); ok {
		return plugin.engine
	}
	return nil
}
