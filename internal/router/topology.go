package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// maxClockAhead is how far ahead of the local clock an ID may have been made. No generator and no
// lease allows as much. An ID beyond it belongs to another layout, or is not an ID at all.
const maxClockAhead = 48 * time.Hour

// Config is the root package's ShardingConfig, and a way to the plugin of a database.
type Config struct {
	Layout    generator.Layout
	Shards    int
	Databases []*gorm.DB
	Place     func(shard int) int
	// EngineOf returns the engine of the plugin that a database uses, or nil if it uses none.
	EngineOf func(*gorm.DB) *fill.Engine
}

// topology says on which shard a row is, and in which database a shard is. It does not change after
// newTopology has returned it, except for staleShards.
type topology struct {
	engine   *fill.Engine
	engineOf func(*gorm.DB) *fill.Engine
	layout   generator.Layout
	mask     int64 // of the sequence
	shards   int
	dbs      []*gorm.DB // fresh sessions: each call on one begins a new statement
	place    []int      // index into dbs of each shard
	models   []*shardModel
	byType   map[reflect.Type]*shardModel
	horizon  int64 // IDs below it are within maxClockAhead of the start of the process

	// staleShards is the number of shards before a resharding whose Clean is pending, or 0.
	staleShards atomic.Int64

	version int64         // of the shard map
	span    time.Duration // how long a lease on it lasts, by the records
	leases  []*mapLease   // by database
}

// newTopology checks the configuration and fills in its defaults. It registers nothing.
func newTopology(cfg Config, models []any) (*topology, error) {
	t := &topology{engineOf: cfg.EngineOf, layout: cfg.Layout, byType: map[reflect.Type]*shardModel{}}
	if err := t.configure(cfg); err != nil {
		return nil, err
	}
	var faults []error
	for i, model := range models {
		faults = append(faults, t.addModel(i, model))
	}
	if len(models) == 0 {
		faults = append(faults, errors.New("no model: pass the models to shard, such as &Order{}"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	t.noteCheckedColumns()
	return t, nil
}

// configure checks everything but the models.
func (t *topology) configure(cfg Config) error {
	if len(cfg.Databases) == 0 {
		return errors.New("no database: Databases needs at least one")
	}
	for i, db := range cfg.Databases {
		if err := t.addDatabase(i, db); err != nil {
			return err
		}
	}
	n := t.engine.Generator()
	if n == nil {
		return errors.New("the plugin takes its numbers from WithSource, which cannot choose shards: a router " +
			"needs the plugin's own generator")
	}
	own := n.Layout()
	if isZeroLayout(t.layout) {
		t.layout = own
	} else if readsDifferently(t.layout, own) {
		return fmt.Errorf("layout %s is not the layout of the plugin, %s", t.layout.Name, own.Name)
	}
	t.mask, t.shards = t.layout.MaxSequence(), cfg.Shards
	if spread := n.Shards(); t.shards < 1 || int64(t.shards) > t.mask+1 || spread%t.shards != 0 {
		return fmt.Errorf("%d shards: the number must be from 1 to %d and divide %d, over which the plugin "+
			"spreads its IDs; to use another number pass WithShards(%d) to snowflakeplugin.New",
			t.shards, t.mask+1, spread, max(t.shards, 1))
	}
	if first, err := t.layout.Compose(generator.Parts{Time: time.Now().Add(maxClockAhead)}); err == nil {
		t.horizon = first
	}
	return t.configurePlaces(cfg.Place)
}

// addDatabase adds a database that uses the plugin of the others.
func (t *topology) addDatabase(i int, db *gorm.DB) error {
	if db == nil || db.Config == nil || db.Statement == nil {
		return fmt.Errorf("database %d is nil, or does not come from gorm.Open", i)
	}
	engine := t.engineOf(db)
	switch {
	case engine == nil || !fill.IsInUse(db):
		return fmt.Errorf("database %d does not use the plugin: call db.Use first, with the same plugin on "+
			"every database", i)
	case t.engine != nil && t.engine != engine:
		return fmt.Errorf("database %d uses another plugin than database 0: all must use the same one", i)
	}
	for other, before := range t.dbs {
		// Two databases may share a connection pool if their table names lead to different schemas.
		if before.ConnPool == db.ConnPool && internalTable(before, "") == internalTable(db, "") {
			return fmt.Errorf("database %d is the same as database %d: list each database once, and let Place "+
				"say where the shards are", i, other)
		}
	}
	t.engine = engine
	t.dbs = append(t.dbs, db.Session(&gorm.Session{NewDB: true}))
	t.leases = append(t.leases, &mapLease{})
	return nil
}

// configurePlaces asks for the database of each shard.
func (t *topology) configurePlaces(place func(int) int) error {
	if place == nil {
		place = func(shard int) int { return shard % len(t.dbs) }
	}
	for shard := range t.shards {
		at := place(shard)
		if at < 0 || at >= len(t.dbs) {
			return fmt.Errorf("Place(%d) returned %d, but there are %d databases", shard, at, len(t.dbs))
		}
		t.place = append(t.place, at)
	}
	return nil
}

// addModel adds a model, given as for NewRouter.
func (t *topology) addModel(i int, given any) error {
	m, err := parseModel(i, given, t.dbs[0], t.shards)
	if err != nil {
		return err
	}
	if t.byType[m.base.ModelType] != nil {
		return fmt.Errorf("model %d, %s: it is given twice", i, m.base.Name)
	}
	plan, err := t.engine.Plans.Prepare(m.base)
	if err != nil {
		return fmt.Errorf("model %d: %w", i, err)
	}
	m.key = plan.RoutingKey()
	if m.key == nil && !m.broadcast {
		return fmt.Errorf("model %d, %s: its primary key must be a single field of type ID or int64 with the "+
			"tag %s", i, m.base.Name, fill.TagName)
	}
	if source := plan.Unroutable(m.key); source != "" && !m.broadcast {
		return fmt.Errorf("model %d, %s: the source %q of its primary key cannot choose shards, because "+
			"it has no method NextLike: take the key from the plugin, and the number of %q for another field",
			i, m.base.Name, source, source)
	}
	if m.key != nil {
		m.like, _ = fill.LikeField(m.base, m.key)
	}
	t.models = append(t.models, m)
	t.byType[m.base.ModelType] = m
	return nil
}

// given returns the models as they were passed to NewRouter.
func (t *topology) given() []any {
	var models []any
	for _, m := range t.models {
		if m.broadcast {
			models = append(models, Broadcast(m.value))
		} else {
			models = append(models, m.value)
		}
	}
	return models
}

// shardOf computes the shard of an ID without checking the ID.
func (t *topology) shardOf(id int64) int { return int(id & t.mask % int64(t.shards)) }

// checkID returns an error for a number that cannot be an ID of the layout.
func (t *topology) checkID(id int64) error {
	if id <= 0 {
		return fmt.Errorf("%w: %d is on no shard: IDs are greater than 0", errs.ErrInvalidID, id)
	}
	if id < t.horizon {
		return nil // The usual case needs neither the layout nor the clock.
	}
	parts, err := t.layout.Decompose(id)
	if err != nil {
		return fmt.Errorf("%w: %d is on no shard: %w", errs.ErrInvalidID, id, err)
	}
	if parts.Time.After(time.Now().Add(maxClockAhead)) {
		return fmt.Errorf("%w: read by layout %s, %d was made at %s, which is in the future: it belongs to "+
			"another layout", errs.ErrInvalidID, t.layout.Name, id, parts.Time.UTC().Format(time.RFC3339))
	}
	return nil
}

// modelOf returns the model of a value: a struct, a pointer to one, a slice of either, or a pointer
// to such a slice.
func (t *topology) modelOf(value any) (*shardModel, error) {
	typ := reflect.TypeOf(value)
	for typ != nil &&
		(typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array) {
		typ = typ.Elem()
	}
	if m := t.byType[typ]; m != nil {
		return m, nil
	}
	var known []string
	for _, m := range t.models {
		known = append(known, m.base.Name)
	}
	return nil, fmt.Errorf("%w: %T; its models are %s", errs.ErrNotSharded, value, strings.Join(known, ", "))
}

// shardedTables returns the table names, without a shard number, of all models that are not broadcast.
func (t *topology) shardedTables() []string {
	var names []string
	for _, m := range t.models {
		if !m.broadcast {
			names = append(names, m.base.Table)
		}
	}
	return names
}

// shardsIn lists the shards of a database in a short form, such as 0-3,8.
func (t *topology) shardsIn(database int) string {
	var b strings.Builder
	first, last := -1, -2 // the run of consecutive shards under way
	end := func() {
		if last > first {
			fmt.Fprintf(&b, "-%d", last)
		}
	}
	for shard, at := range t.place {
		if at != database {
			continue
		}
		if shard == last+1 {
			last = shard
			continue
		}
		end()
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(shard))
		first, last = shard, shard
	}
	end()
	return b.String()
}

// plainOn returns a handle for the router's own statements. Its table is named explicitly, so the
// guard lets it pass.
func (t *topology) plainOn(ctx context.Context, database int, table string) *gorm.DB {
	return t.dbs[database].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true}).Table(table)
}

// internalTable returns the name of one of the router's own tables, spelled by the naming strategy of
// the application.
func internalTable(db *gorm.DB, name string) string { return db.NamingStrategy.TableName(name) }

func isZeroLayout(l generator.Layout) bool {
	return l.TimeBits == 0 && l.SequenceBits == 0 && l.Node == nil && l.Tick == 0
}

// readsDifferently reports whether two layouts disagree about the parts of an ID.
func readsDifferently(a, b generator.Layout) bool {
	return !a.Epoch.Equal(b.Epoch) || a.Tick != b.Tick || a.TimeBits != b.TimeBits ||
		a.NodeBits() != b.NodeBits() || a.SequenceBits != b.SequenceBits
}
