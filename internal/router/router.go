// Package router spreads the rows of models over the tables and databases of shards.
//
// A shardmap.Topology computes where a row is. A cluster adds what GORM needs to run statements there:
// handles that carry a route, schemas whose tables have the number of a shard, and a guard in each database
// that refuses statements without a route. The methods of a Router and of a Resharding build on that.
//
// An ID is an int64 in this package. The root package converts between that and its own types, and
// documents what applications call; comments here say how it is done.
package router

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// Router is a cluster with the scopes of its reads. It is safe for concurrent use.
type Router struct {
	*cluster
	scopes []func(*gorm.DB) *gorm.DB // see Scopes
}

// NewRouter compares the configuration with what the databases have recorded before it installs
// anything. Its errors wrap [errs.ErrSharding].
func NewRouter(cfg shardmap.Config, models ...any) (*Router, error) {
	t, err := shardmap.NewTopology(cfg, models)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	entries, err := shardmap.Registry{Topology: t}.Compare()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	if entries != nil {
		if t, err = t.WithEntries(entries); err != nil {
			return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
		}
	}
	of := &current{}
	c := newCluster(t, of)
	of.cluster.Store(c)
	if err := c.install(nil); err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	return &Router{cluster: c}, nil
}

// current is the cluster of the shard map that is valid now. The routers that one call of NewRouter and
// calls of Scopes have made share it, so all of them follow a cutover.
type current struct {
	cluster  atomic.Pointer[cluster]
	adopting sync.Mutex // held while the cluster is replaced
}

// At returns the router with the cluster of the valid map. It reads that again after a table was not found.
func (r *Router) At(ctx context.Context) (*Router, error) {
	c := r.current.cluster.Load()
	inside := c.isLocked(ctx)
	for i := range c.Databases {
		// Of a database that does not answer, the statements that need it tell.
		if err := c.LookOnce(ctx, i, inside); errors.Is(err, errs.ErrSharding) {
			return nil, err
		}
	}
	if inside || !c.doubted.Load() {
		return r.on(c), nil
	}
	if err := r.current.reread(ctx, c); err != nil {
		return nil, err
	}
	return r.Known(), nil
}

// Known returns the router with the cluster that the process has used last, without asking a database.
func (r *Router) Known() *Router { return r.on(r.current.cluster.Load()) }

// Settled is Adopt that waits while a shard is between its old tables and its new ones. Whoever makes tables
// that are missing must not make those that a cutover has just renamed.
func (r *Router) Settled(ctx context.Context) (*Router, error) {
	for {
		current, err := r.Adopt(ctx)
		if err != nil || !hasClosed(current.cluster) {
			return current, err
		}
		if _, err = r.current.await(ctx, current.cluster); err != nil {
			return nil, err
		}
	}
}

// Adopt reads the map that the databases have recorded, and returns the router with that.
func (r *Router) Adopt(ctx context.Context) (*Router, error) {
	if err := r.current.reread(ctx, r.current.cluster.Load()); err != nil {
		return nil, err
	}
	return r.Known(), nil
}

// Missed reports whether a method of the router failed because a table of its map was not there, and another
// call is worth it. If the map is being changed, it waits for that. The first call is always repeated,
// because the cutover may have been given up in between.
func (r *Router) Missed(ctx context.Context, err error, first bool) (again bool, _ error) {
	if !dialect.Missing(err) {
		return false, nil
	}
	r.doubted.Store(true)
	if r.isLocked(ctx) {
		return false, nil
	}
	changed, err := r.current.await(ctx, r.cluster)
	return changed || first && err == nil, err
}

// on returns a router with the same scopes on a cluster.
func (r *Router) on(c *cluster) *Router {
	if r.cluster == c {
		return r
	}
	return &Router{cluster: c, scopes: r.scopes}
}

// isLocked reports whether a context is that of a transaction, which may hold the only connection.
func (c *cluster) isLocked(ctx context.Context) bool {
	to, ok := c.current.routeIn(ctx)
	return ok && to.locked
}

// Shards returns the number of shards.
func (r *Router) Shards() int { return r.ShardCount }

// Scopes returns a router on the same cluster. The slice is clipped first, so that two routers made
// from one do not write to the same array.
func (r *Router) Scopes(fns ...func(*gorm.DB) *gorm.DB) *Router {
	return &Router{cluster: r.cluster, scopes: append(r.scopes[:len(r.scopes):len(r.scopes)], fns...)}
}

// Shard checks the ID before it computes the number of the shard.
func (r *Router) Shard(id int64) (int, error) {
	shard, err := r.shardOf(id)
	if err != nil {
		return 0, err
	}
	return r.Entry(shard).Residue, nil
}

// shardOf is Shard for the number inside this module.
func (r *Router) shardOf(id int64) (int, error) {
	if err := r.CheckID(id); err != nil {
		return 0, err
	}
	return r.Topology.ShardOf(id), nil
}

// Table looks the name up in the list that NewRouter made.
func (r *Router) Table(model any, id int64) (string, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return "", err
	}
	shard, err := r.shardOf(id)
	if err != nil {
		return "", err
	}
	return m.Table(shard), nil
}

// find returns the model of a value, and the shard of an ID, which a context may refuse.
func (r *Router) find(ctx context.Context, model any, id int64) (m *shardmap.Model, shard int, err error) {
	if m, err = r.ModelOf(model); err == nil {
		shard, err = r.reach(ctx, id)
	}
	return m, shard, err
}

// reach returns the shard of an ID, unless the context is that of a transaction on another one.
func (r *Router) reach(ctx context.Context, id int64) (int, error) {
	shard, err := r.shardOf(id)
	if err == nil {
		err = r.checkLocked(ctx, shard)
	}
	return shard, err
}

// DB returns a handle with the route of the shard.
func (r *Router) DB(ctx context.Context, model any, id int64) (*gorm.DB, error) {
	m, shard, err := r.find(ctx, model, id)
	if err != nil {
		return nil, err
	}
	to := r.to(shard)
	to.id = id
	return r.handle(ctx, r.Databases[r.Place[shard]], to, m.Subject(ctx, model)), nil
}

// ShardOf looks at the route of the statement.
func (r *Router) ShardOf(tx *gorm.DB) (shard int, routed bool) {
	to, routed, err := r.routeOf(tx.Statement)
	switch {
	case err != nil || !routed:
		return 0, false
	case to.all:
		return -1, true
	}
	return to.number(), true
}

// Explain decomposes the ID, looks up the place of its shard, and says both in a sentence.
func (r *Router) Explain(id int64) (string, error) {
	shard, err := r.shardOf(id)
	if err != nil {
		return "", err
	}
	parts, err := r.Layout.Decompose(id)
	if err != nil {
		return "", err
	}
	var tables []string
	for _, m := range r.Models {
		if !m.Broadcast {
			tables = append(tables, m.Table(shard))
		}
	}
	database := r.Place[shard]
	return fmt.Sprintf("%d is on shard %d, in database %d (%s), table %s; made %s on node %d, sequence %d",
		id, r.Entry(shard).Residue, database, r.Databases[database].Name(), strings.Join(tables, " or "),
		parts.Time.UTC().Format(time.RFC3339Nano), parts.Node, parts.Sequence), nil
}

// MakeTables makes the tables of all models for an entry that the map does not have yet.
func (r *Router) MakeTables(ctx context.Context, e shardmap.Entry) error {
	return migrator{r.cluster}.makeTables(ctx, e)
}

// AutoMigrate makes the broadcast tables first, then the tables of all shards, and records the number of
// shards at last.
func (r *Router) AutoMigrate(ctx context.Context) error {
	g := migrator{r.cluster}
	for i := range r.Databases {
		for _, m := range r.Models {
			if !m.Broadcast {
				continue
			}
			if err := shardmap.AutoMigrate(g.session(ctx, i), m.Value); err != nil {
				return fmt.Errorf("snowflakeplugin: migrate %s in database %d: %w", m.Base.Name, i, err)
			}
		}
	}
	failures := slices.Repeat([]error{shardmap.ErrUnfinished}, r.ShardCount)
	// Each database changes one table at a time: several would wait for each other, or fail.
	_ = shardmap.Scatter(context.WithoutCancel(ctx), len(r.Databases), func(database int) error {
		for shard, at := range r.Place {
			if at == database {
				failures[shard] = g.migrate(ctx, shard)
			}
		}
		return nil
	})
	if err := shardmap.PartialOf(failures); err != nil {
		return aboutShards(r.Topology, err, func(shard int) []int { return []int{shard} })
	}
	for try := 1; ; try++ {
		err := shardmap.Registry{Topology: r.Topology}.RecordMissing(ctx)
		if try == maxTries || !dialect.Busy(err) { // A cutover changes the same records.
			return err
		}
	}
}

// Check looks at all tables first, and then compares those of one kind of database with each other.
func (r *Router) Check(ctx context.Context) error {
	shapes := make([][]shape, r.ShardCount)
	err := shardmap.Scatter(ctx, r.ShardCount, func(shard int) (err error) {
		shapes[shard], err = migrator{r.cluster}.shapesOf(ctx, shard)
		return err
	})
	if err != nil {
		return err
	}
	e := &DriftError{}
	first := map[string]shape{} // by model and kind of database
	for shard, of := range shapes {
		for _, s := range of {
			database := r.Place[shard]
			add := func(what string) {
				e.Drifts = append(e.Drifts, Drift{r.Entry(shard).Residue, database, s.table,
					what})
			}
			for _, what := range s.missing {
				add(what)
			}
			key := r.Databases[database].Name() + " " + s.model.Base.Name
			other, seen := first[key]
			if !seen && len(s.missing) == 0 {
				first[key] = s
			}
			for _, column := range s.model.Base.DBNames {
				if a, b := s.types[column], other.types[column]; seen && a != "" && a != b {
					add(fmt.Sprintf("column %s is of type %s, and in %s of type %s", column, a, other.table, b))
				}
			}
		}
	}
	if len(e.Drifts) > 0 {
		return e
	}
	return nil
}

// Each gives fn a handle for every shard, or for every database if the model is a broadcast one.
func (r *Router) Each(ctx context.Context, model any, fn func(shard int, tx *gorm.DB) error) error {
	m, err := r.ModelOf(model)
	if err != nil {
		return err
	}
	if m.Broadcast {
		return shardmap.Scatter(ctx, len(r.Databases), func(database int) error {
			return fn(database, r.handle(ctx, r.Databases[database], route{all: true}, m.Value))
		})
	}
	err = shardmap.Scatter(ctx, r.ShardCount, func(shard int) error {
		if err := r.checkLocked(ctx, shard); err != nil {
			return err
		}
		return fn(r.Entry(shard).Residue, r.handleOn(ctx, shard, m.Value))
	})
	return aboutShards(r.Topology, err, func(shard int) []int { return []int{shard} })
}

// Create gives every row its ID first, because the ID decides on the shard. Then it stores the rows of
// each database in one transaction.
func (r *Router) Create(ctx context.Context, rows any) error {
	m, err := r.ModelOf(rows)
	if err != nil {
		return err
	}
	list, err := addressable(rows)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: create %s: %w", m.Base.Name, err)
	}
	made, err := r.assignKeys(ctx, m, rows)
	if err != nil {
		return err
	}
	if m.Broadcast {
		return r.createEverywhere(ctx, list, made)
	}
	byShard, err := r.group(ctx, m, list)
	if err != nil {
		return err
	}
	batches := make([][]shardBatch, len(r.Databases))
	for shard, rows := range byShard {
		if rows.IsValid() {
			at := r.Place[shard]
			batches[at] = append(batches[at], shardBatch{r.Entry(shard).Residue, r.to(shard), rows.Interface(),
				made})
		}
	}
	return r.store(ctx, batches)
}

// addressable lists the structs of an argument of Create. Each of them can be written to.
func addressable(rows any) ([]reflect.Value, error) {
	v := reflect.ValueOf(rows)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		if !v.CanAddr() {
			return nil, fmt.Errorf("%w: pass a pointer, so that the row can be given an ID", gorm.ErrInvalidValue)
		}
		return []reflect.Value{v}, nil
	}
	if v.Kind() != reflect.Slice && (v.Kind() != reflect.Array || !v.CanAddr()) {
		return nil, fmt.Errorf("%w: %T", gorm.ErrInvalidValue, rows)
	}
	list := make([]reflect.Value, v.Len())
	for i := range list {
		list[i] = v.Index(i)
		if list[i].Kind() == reflect.Pointer {
			if list[i].IsNil() {
				return nil, fmt.Errorf("%w: row %d is nil", gorm.ErrInvalidData, i)
			}
			list[i] = list[i].Elem()
		}
	}
	return list, nil
}

// assignKeys gives IDs to the rows that have none, and returns them.
func (c *cluster) assignKeys(ctx context.Context, m *shardmap.Model, rows any) (made []int64, err error) {
	numbers, err := c.Engine.Numbers(ctx)
	if err != nil {
		return nil, err
	}
	return fill.AssignAll(ctx, c.Databases[0], c.Engine.Plans, numbers, m.Base, rows)
}

// group puts the rows of each shard into a slice of pointers. A shard without rows has the zero Value.
func (r *Router) group(
	ctx context.Context, m *shardmap.Model, rows []reflect.Value,
) ([]reflect.Value, error) {
	byShard := make([]reflect.Value, r.ShardCount)
	slice := reflect.SliceOf(reflect.PointerTo(m.Base.ModelType))
	for i, row := range rows {
		shard, err := r.reach(ctx, m.IDOf(ctx, row))
		if err != nil {
			return nil, fmt.Errorf("create %s: row %d: %w", m.Base.Name, i, err)
		}
		if !byShard[shard].IsValid() {
			byShard[shard] = reflect.MakeSlice(slice, 0, len(rows)/r.ShardCount+1)
		}
		byShard[shard] = reflect.Append(byShard[shard], row.Addr())
	}
	return byShard, nil
}

// shardBatch is what goes to one shard, or, for a broadcast model, to one database.
type shardBatch struct {
	shard int // its number for applications
	to    route
	rows  any
	made  []int64 // the keys that were made for them
}

// createEverywhere stores the rows of a broadcast model in every database, one database after the other
// because each writes to the same structs.
func (c *cluster) createEverywhere(ctx context.Context, rows []reflect.Value, made []int64) error {
	if len(rows) == 0 {
		return nil
	}
	slice := reflect.MakeSlice(reflect.SliceOf(rows[0].Addr().Type()), 0, len(rows))
	for _, row := range rows {
		slice = reflect.Append(slice, row.Addr())
	}
	var txs storeTxs
	defer func() { txs.end() }() // of all that are there then
	for i, db := range c.Databases {
		t := &storeTx{batches: []shardBatch{{i, route{all: true}, slice.Interface(), made}}}
		txs = append(txs, t)
		if t.run(ctx, c, db); t.err != nil {
			return txs.abandon()
		}
	}
	return txs.commit()
}

// store writes the batches, which are grouped by database, in one transaction for each database. It goes from
// one database to the next in the order of their places. Two creates that took them in any order could each
// have what the other one waits for, and no database sees such a circle.
func (c *cluster) store(ctx context.Context, batches [][]shardBatch) error {
	var txs storeTxs
	defer func() { txs.end() }() // of all that are there then
	for i, of := range batches {
		if len(of) == 0 {
			continue
		}
		t := &storeTx{batches: of}
		txs = append(txs, t)
		if t.err = errs.Ended(ctx); t.err == nil {
			t.run(ctx, c, c.Databases[i])
		}
		if t.err != nil {
			return txs.abandon()
		}
	}
	return txs.commit()
}

// storeTx is the transaction of Create in one database.
type storeTx struct {
	batches []shardBatch
	tx      *gorm.DB // nil if it is not open
	err     error
}

// run begins the transaction and writes the batches. It leaves the transaction open.
func (t *storeTx) run(ctx context.Context, c *cluster, db *gorm.DB) {
	if t.begin(ctx, db); t.err != nil {
		return
	}
	if rows := t.together(ctx, c, db); rows.IsValid() {
		err := shardmap.RecoverPanic(func() error {
			on := t.tx.Session(&gorm.Session{NewDB: true})
			return c.handle(ctx, on, route{shard: t.batches[0].to.shard, all: true, together: true}, nil).
				Set(fill.KeysMade, t.batches[0].made).Create(rows.Interface()).Error
		})
		if err == nil {
			return
		}
		// By a statement for each shard, the error says which of them it is of.
		_ = t.tx.Rollback()
		t.tx = nil
		if t.begin(ctx, db); t.err != nil {
			return
		}
	}
	tx := t.tx
	for _, b := range t.batches {
		err := shardmap.RecoverPanic(func() error {
			on := tx.Session(&gorm.Session{NewDB: true})
			return c.handle(ctx, on, b.to, nil).Set(fill.KeysMade, b.made).Create(b.rows).Error
		})
		if err != nil {
			t.err = fmt.Errorf("shard %d: %w", b.shard, err)
			return
		}
	}
}

func (t *storeTx) begin(ctx context.Context, db *gorm.DB) {
	if tx := db.Session(&gorm.Session{NewDB: true, Context: ctx}).Begin(); tx.Error != nil {
		t.err = tx.Error
	} else {
		t.tx = tx
	}
}

// maxTogether bounds the arguments of a statement that stores rows of several shards. With more, what a
// statement for each shard costs hardly counts.
const maxTogether = 10_000

// together returns the rows of all batches if one statement can store them: PostgreSQL takes one for several
// tables, the database has no values to return, and neither hooks nor relations need the handle of a shard.
func (t *storeTx) together(ctx context.Context, c *cluster, db *gorm.DB) (rows reflect.Value) {
	if db.Name() != dialect.PostgreSQL || len(t.batches) < 2 {
		return rows
	}
	slice := reflect.ValueOf(t.batches[0].rows)
	m := c.ByType[slice.Type().Elem().Elem()]
	s := m.Base
	if s.BeforeCreate || s.BeforeSave || s.AfterCreate || s.AfterSave || len(s.FieldsWithDefaultDBValue) > 0 {
		return rows
	}
	all := reflect.MakeSlice(slice.Type(), 0, len(t.batches)*slice.Len())
	for _, b := range t.batches {
		all = reflect.AppendSlice(all, reflect.ValueOf(b.rows))
	}
	for _, relation := range allRelations(s) {
		if holdsRows(&gorm.Statement{Schema: s, Context: ctx}, relation, all) {
			return rows
		}
	}
	if all.Len()*len(s.DBNames) > maxTogether {
		return rows
	}
	return all
}

// createTogether does what GORM's own callback does for the rows of one table. Each table but the last one
// gets its rows in a WITH.
func (c *cluster) createTogether(db *gorm.DB) {
	stmt := db.Statement
	if db.Error != nil {
		return
	}
	if !stmt.Unscoped {
		for _, of := range stmt.Schema.CreateClauses {
			stmt.AddClause(of)
		}
	}
	m := c.ByType[stmt.Schema.ModelType]
	values := callbacks.ConvertToCreateValues(stmt)
	byShard, last := make([][][]any, c.ShardCount), 0
	for i, row := range values.Values {
		of := reflect.Indirect(stmt.ReflectValue.Index(i))
		shard := c.ShardOf(m.IDOf(stmt.Context, of))
		_ = db.AddError(keyRules{c.Topology}.checkRow(stmt, m, of, shard))
		byShard[shard], last = append(byShard[shard], row), max(last, shard)
	}
	for _, name := range stmt.BuildClauses {
		if _, found := stmt.Clauses[name]; found { // A callback of the application has added it.
			_ = db.AddError(fmt.Errorf("%w: %s in a statement for several tables", gorm.ErrInvalidData, name))
		}
	}
	begin := "WITH "
	for shard, rows := range byShard {
		if rows == nil {
			continue
		}
		into := "INSERT INTO " + stmt.Quote(m.Table(shard)) + " "
		if shard < last {
			into, begin = fmt.Sprintf("%ss%d AS (%s", begin, shard, into), ", "
		} else {
			into = " " + into
		}
		stmt.SQL.WriteString(into)
		clause.Values{Columns: values.Columns, Values: rows}.Build(stmt)
		if shard < last {
			stmt.SQL.WriteByte(')')
		}
	}
	if db.DryRun || db.Error != nil {
		return
	}
	if db.AddError(c.repeated.exec(stmt)) == nil {
		db.RowsAffected = int64(len(values.Values))
	}
}

// repeatedTexts are long statements that have come more than once. Drivers keep the statements that they
// prepare, in which PostgreSQL needs a hundred times the length of the text on each connection. So few of
// them may be kept, and the others are closed at once.
type repeatedTexts struct {
	mu   sync.Mutex
	seed maphash.Seed
	seen map[uint64]bool // by the hash of a text, whether it has come again
	size int             // of those
}

// The bounds of what is remembered. For more rows than a longer text has, its plan hardly counts.
const (
	maxSeen     = 4096
	maxText     = 16 << 10
	maxRepeated = 256 << 10 // of all texts
)

// exec runs a statement, and lets the driver keep it only if its text is one of them.
func (r *repeatedTexts) exec(stmt *gorm.Statement) (err error) {
	text := stmt.SQL.String()
	if r.has(text) {
		_, err = stmt.ConnPool.ExecContext(stmt.Context, text, stmt.Vars...)
		return err
	}
	prepared, err := stmt.ConnPool.PrepareContext(stmt.Context, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prepared.Close()) }()
	_, err = prepared.ExecContext(stmt.Context, stmt.Vars...)
	return err
}

// has reports whether a text is one of them.
func (r *repeatedTexts) has(text string) bool {
	if len(text) > maxText {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil || len(r.seen) > maxSeen && r.size == 0 {
		r.seed, r.seen = maphash.MakeSeed(), map[uint64]bool{}
	}
	sum := maphash.String(r.seed, text)
	again, known := r.seen[sum]
	switch {
	case known && !again && r.size+len(text) <= maxRepeated:
		r.seen[sum], again = true, true
		r.size += len(text)
	case !known && len(r.seen) <= maxSeen:
		r.seen[sum] = false
	}
	return again
}

// storeTxs are the transactions of one Create.
type storeTxs []*storeTx

// end rolls back what is still open. It is deferred, because a hook can end the goroutine of the caller.
func (txs storeTxs) end() {
	for _, t := range txs {
		if t.tx != nil {
			_ = t.tx.Rollback() // nobody is there to tell
		}
	}
}

// abandon rolls all transactions back.
func (txs storeTxs) abandon() error {
	var failures []error
	for _, t := range txs {
		failures = append(failures, t.err)
		if t.tx != nil {
			failures = append(failures, t.tx.Rollback().Error)
			t.tx = nil
		}
	}
	return fmt.Errorf("snowflakeplugin: nothing was stored: %w", errors.Join(failures...))
}

// commit commits all transactions side by side: none of them waits for another one, as their statements may.
// If some fail, the error says which shards have their rows.
func (txs storeTxs) commit() error {
	failures := slices.Repeat([]error{shardmap.ErrUnfinished}, len(txs))
	var commits sync.WaitGroup
	for i, t := range txs {
		commits.Go(func() {
			failures[i] = shardmap.RecoverPanic(func() error { return t.tx.Commit().Error })
		})
	}
	commits.Wait()
	e := &shardmap.PartialError{Failed: map[int]error{}}
	for i, t := range txs {
		err := failures[i]
		t.tx = nil
		for _, b := range t.batches {
			if err == nil {
				e.OK = append(e.OK, b.shard)
			} else {
				// The database may have committed, and only its answer was lost.
				e.Failed[b.shard] = fmt.Errorf("the commit was not confirmed, so the rows may be stored or not: "+
					"look for them by Router.Find, and create again those that are missing: %w", err)
			}
		}
	}
	if len(e.Failed) == 0 {
		return nil
	}
	slices.Sort(e.OK)
	return e
}

// Transaction gives fn a handle with a locked route.
func (r *Router) Transaction(ctx context.Context, id int64, fn func(tx *ShardTx) error) error {
	shard, err := r.reach(ctx, id)
	if err != nil {
		return err
	}
	to := route{shard: shard, of: r.Topology, id: id, locked: true}
	return r.handle(ctx, r.Databases[r.Place[shard]], to, nil).Transaction(func(tx *gorm.DB) error {
		return fn(&ShardTx{router: r, shard: shard, ctx: tx.Statement.Context, tx: tx})
	})
}

// ShardTx is a transaction on one shard.
type ShardTx struct {
	router *Router
	shard  int
	ctx    context.Context //nolint:containedctx // it belongs to the transaction, as that of a *gorm.DB does
	tx     *gorm.DB
}

// Shard returns the number of the shard.
func (t *ShardTx) Shard() int { return t.router.Entry(t.shard).Residue }

// Context returns a context that carries the locked route.
func (t *ShardTx) Context() context.Context { return t.ctx }

// DB returns a handle of the transaction for the model.
func (t *ShardTx) DB(model any, id int64) (*gorm.DB, error) {
	m, _, err := t.router.find(t.ctx, model, id)
	if err != nil {
		return nil, err
	}
	return t.tx.Model(m.Subject(t.ctx, model)).Session(&gorm.Session{}), nil
}

// Gorm returns a handle of the transaction that is bound to no model.
func (t *ShardTx) Gorm() *gorm.DB { return t.tx.Session(&gorm.Session{}) }

// Create stores rows of any model of the router; the guard and the plans check their shards.
func (t *ShardTx) Create(rows any) error {
	if _, err := t.router.ModelOf(rows); err != nil {
		return err
	}
	return t.Gorm().Create(rows).Error
}
