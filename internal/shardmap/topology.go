// Package shardmap says on which shard a row is, in which database and tables a shard is, and what the
// databases have recorded about that.
//
// A [Topology] is one version of the map in a process, and does not change. A [Registry] compares it with the
// records of the databases, and changes those. The packages router and resharding build on this one.
package shardmap

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
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

// Topology says on which shard a row is, and in which database a shard is. It does not change after
// NewTopology has returned it.
type Topology struct {
	Engine     *fill.Engine
	Layout     generator.Layout
	Mask       int64 // of the sequence
	FirstCount int   // the number of shards at the first start, which the records and the configuration keep
	ShardCount int
	Databases  []*gorm.DB // fresh sessions: each call on one begins a new statement
	entries    []Entry    // by shard
	index      []int32    // the shards of the residues by the common modulus
	Models     []*Model
	Sharded    []*Model // those that are not broadcast
	ByType     map[reflect.Type]*Model
	horizon    int64 // IDs below it are within maxClockAhead of the start of the process
}

// NewTopology checks the configuration and fills in its defaults. It registers nothing.
func NewTopology(cfg Config, models []any) (*Topology, error) {
	t := &Topology{Layout: cfg.Layout, ByType: map[reflect.Type]*Model{}}
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
	return t, t.checkNames(t.entries)
}

// configure checks everything but the models.
func (t *Topology) configure(cfg Config) error {
	if len(cfg.Databases) == 0 {
		return errors.New("no database: Databases needs at least one")
	}
	for i, db := range cfg.Databases {
		if err := t.addDatabase(i, db, cfg.EngineOf); err != nil {
			return err
		}
	}
	n := t.Engine.Generator()
	if n == nil {
		return errors.New("the plugin takes its numbers from WithSource, which cannot choose shards: a router " +
			"needs the plugin's own generator")
	}
	own := n.Layout()
	if isZeroLayout(t.Layout) {
		t.Layout = own
	} else if readsDifferently(t.Layout, own) {
		return fmt.Errorf("layout %s is not the layout of the plugin, %s", t.Layout.Name, own.Name)
	}
	t.Mask, t.FirstCount = t.Layout.MaxSequence(), cfg.Shards
	if spread := n.Shards(); t.FirstCount < 1 || int64(t.FirstCount) > t.Mask+1 || spread%t.FirstCount != 0 {
		return fmt.Errorf("%d shards: the number must be from 1 to %d and divide %d, over which the plugin "+
			"spreads its IDs; to use another number pass WithShards(%d) to snowflakeplugin.New",
			t.FirstCount, t.Mask+1, spread, max(t.FirstCount, 1))
	}
	if first, err := t.Layout.Compose(generator.Parts{Time: time.Now().Add(maxClockAhead)}); err == nil {
		t.horizon = first
	}
	return t.configurePlaces(cfg.Place)
}

// addDatabase adds a database that uses the plugin of the others.
func (t *Topology) addDatabase(i int, db *gorm.DB, engineOf func(*gorm.DB) *fill.Engine) error {
	if db == nil || db.Config == nil || db.Statement == nil {
		return fmt.Errorf("database %d is nil, or does not come from gorm.Open", i)
	}
	engine := engineOf(db)
	switch {
	case engine == nil || !fill.IsInUse(db):
		return fmt.Errorf("database %d does not use the plugin: call db.Use first, with the same plugin on "+
			"every database", i)
	case t.Engine != nil && t.Engine != engine:
		return fmt.Errorf("database %d uses another plugin than database 0: all must use the same one", i)
	}
	for other, before := range t.Databases {
		// Two databases may share a connection pool if their table names lead to different schemas.
		if before.ConnPool == db.ConnPool && InternalTable(before, "") == InternalTable(db, "") {
			return fmt.Errorf("database %d is the same as database %d: list each database once, and let Place "+
				"say where the shards are", i, other)
		}
	}
	t.Engine = engine
	// Model begins a statement, so that the session has one without the conditions of the handle.
	clean := db.Session(&gorm.Session{NewDB: true}).Model(nil)
	t.Databases = append(t.Databases, clean.Session(&gorm.Session{NewDB: true}))
	return nil
}

// configurePlaces asks for the database of each shard.
func (t *Topology) configurePlaces(place func(int) int) error {
	if place == nil {
		place = func(shard int) int { return shard % len(t.Databases) }
	}
	var entries []Entry
	for shard := range t.FirstCount {
		database := place(shard)
		if database < 0 || database >= len(t.Databases) {
			return fmt.Errorf("Place(%d) returned %d, but there are %d databases", shard, database,
				len(t.Databases))
		}
		entries = append(entries, Entry{Class{shard, t.FirstCount}, 0, database, false})
	}
	return t.setEntries(entries)
}

// addModel adds a model, given as for NewRouter.
func (t *Topology) addModel(i int, given any) error {
	m, err := parseModel(i, given, t.Databases[0])
	if err != nil {
		return err
	}
	if t.ByType[m.Base.ModelType] != nil {
		return fmt.Errorf("model %d, %s: it is given twice", i, m.Base.Name)
	}
	plan, err := t.Engine.Plans.Prepare(m.Base)
	if err != nil {
		return fmt.Errorf("model %d: %w", i, err)
	}
	m.Key = plan.RoutingKey()
	if m.Key == nil && !m.Broadcast {
		return fmt.Errorf("model %d, %s: its primary key must be a single field of type ID or int64 with the "+
			"tag %s", i, m.Base.Name, fill.TagName)
	}
	if source := plan.Unroutable(m.Key); source != "" && !m.Broadcast {
		return fmt.Errorf("model %d, %s: the source %q of its primary key cannot choose shards, because "+
			"it has no method NextLike: take the key from the plugin, and the number of %q for another field",
			i, m.Base.Name, source, source)
	}
	if m.Key != nil {
		m.Like, _ = fill.LikeField(m.Base, m.Key)
	}
	t.Models = append(t.Models, m)
	if !m.Broadcast {
		t.Sharded = append(t.Sharded, m)
	}
	t.ByType[m.Base.ModelType] = m
	return nil
}

// WithEntries makes a topology of the same models and databases by the entries of a map that has changed.
func (t *Topology) WithEntries(entries []Entry) (*Topology, error) {
	changed := *t
	return &changed, changed.setEntries(entries)
}

// Entries returns the entries of the map, by their residues. The index of an entry is the number of its shard
// inside this module.
func (t *Topology) Entries() []Entry { return slices.Clone(t.entries) }

// EntryOf returns the entry of a class.
func (t *Topology) EntryOf(c Class) (Entry, error) {
	if i := slices.IndexFunc(t.entries, func(e Entry) bool { return e.Class == c }); i >= 0 {
		return t.entries[i], nil
	}
	var near []string
	for _, e := range t.entries {
		if c.Modulus > 0 && e.meets(c) {
			near = append(near, e.String())
		}
	}
	return Entry{}, fmt.Errorf("%w: no shard of the map is the class %s; those that share IDs with it are %s",
		errs.ErrSharding, c, strings.Join(near, " and "))
}

// Entry returns the entry of a shard.
func (t *Topology) Entry(shard int) Entry { return t.entries[shard] }

// setEntries makes a topology use entries that are sorted and have all IDs.
func (t *Topology) setEntries(entries []Entry) error {
	t.entries, t.ShardCount, t.index = entries, len(entries), make([]int32, commonModulus(entries))
	for shard, e := range entries {
		for residue := e.Residue; residue < len(t.index); residue += e.Modulus {
			t.index[residue] = int32(shard) //nolint:gosec // A sequence has far fewer numbers.
		}
		if spread := t.Engine.Generator().Shards(); spread%e.Modulus != 0 {
			return fmt.Errorf("by now the map has shard %s, but %[2]d does not divide %d, over which the plugin "+
				"spreads its IDs: pass WithShards(%[2]d) to snowflakeplugin.New", e.Class, e.Modulus, spread)
		}
	}
	return nil
}

// checkNames refuses names of tables that are too long. PostgreSQL would cut them off without a word, so that
// several shards would have one table.
func (t *Topology) checkNames(entries []Entry) error {
	for _, e := range entries {
		kind := dialect.Kind(t.Databases[e.Database].Name())
		for _, table := range t.Tables(e) {
			if _, name := dialect.Split(table.Name); !kind.Fits(name) {
				return fmt.Errorf("the table %s of shard %s has too long a name for %s: let TableName of the "+
					"model, or the tag many2many, give it a shorter one", name, e.Class, kind)
			}
		}
	}
	return nil
}

// checkModulus refuses a modulus by which IDs do not spread evenly.
func (t *Topology) checkModulus(modulus int) error {
	switch spread := t.Engine.Generator().Shards(); {
	case (t.Mask+1)%int64(modulus) != 0:
		return fmt.Errorf("%w: the modulus %d does not divide %d, the size of the sequence in layout %s",
			errs.ErrSharding, modulus, t.Mask+1, t.Layout.Name)
	case spread%modulus != 0:
		return fmt.Errorf("%w: the modulus %d does not divide %d, over which the plugin spreads its IDs: pass "+
			"WithShards(%d) to snowflakeplugin.New in every program first", errs.ErrSharding, modulus, spread,
			modulus)
	}
	return nil
}

// ShardOf computes the shard of an ID without checking the ID.
func (t *Topology) ShardOf(id int64) int {
	return int(t.index[id&t.Mask%int64(len(t.index))])
}

// CheckID returns an error for a number that cannot be an ID of the layout.
func (t *Topology) CheckID(id int64) error {
	if id <= 0 {
		return fmt.Errorf("%w: %d is on no shard: IDs are greater than 0", errs.ErrInvalidID, id)
	}
	if id < t.horizon {
		return nil // The usual case needs neither the layout nor the clock.
	}
	parts, err := t.Layout.Decompose(id)
	if err != nil {
		return fmt.Errorf("%w: %d is on no shard: %w", errs.ErrInvalidID, id, err)
	}
	if parts.Time.After(time.Now().Add(maxClockAhead)) {
		return fmt.Errorf("%w: read by layout %s, %d was made at %s, which is in the future: it belongs to "+
			"another layout", errs.ErrInvalidID, t.Layout.Name, id, parts.Time.UTC().Format(time.RFC3339))
	}
	return nil
}

// ModelOf returns the model of a value: a struct, a pointer to one, a slice of either, or a pointer
// to such a slice.
func (t *Topology) ModelOf(value any) (*Model, error) {
	typ := reflect.TypeOf(value)
	for typ != nil &&
		(typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array) {
		typ = typ.Elem()
	}
	if m := t.ByType[typ]; m != nil {
		return m, nil
	}
	var known []string
	for _, m := range t.Models {
		known = append(known, m.Base.Name)
	}
	return nil, fmt.Errorf("%w: %T; its models are %s", errs.ErrNotSharded, value, strings.Join(known, ", "))
}

// TableOn returns the name of a model's table on a shard.
func (t *Topology) TableOn(m *Model, shard int) string {
	if m.Broadcast {
		return m.Base.Table
	}
	return t.entries[shard].TableOn(m.Base.Table)
}

// shardedTables returns the table names of the sharded models, without a shard number.
func (t *Topology) shardedTables() (names []string) {
	for _, m := range t.Sharded {
		names = append(names, m.Base.Table)
	}
	return names
}

// shardsIn is the text of the entries of a database.
func (t *Topology) shardsIn(database int) string {
	return formatEntries(entriesIn(database, t.entries), t.FirstCount)
}

// Crosses reports whether the rows at the other end of a relation may be on other shards. A statement on a
// shard sees the rows of one shard, so it may follow a relation only if all rows at its other end are proven
// to be there too. Nothing is concluded from the names of models.
func (t *Topology) Crosses(relation *schema.Relationship) bool {
	own, other := t.ByType[relation.Schema.ModelType], t.ByType[relation.FieldSchema.ModelType]
	sharded := func(m *Model) bool { return m != nil && !m.Broadcast }
	switch {
	case other != nil && other.Broadcast:
		return false // All of them are in every database.
	case other == nil && (own == nil || len(t.Databases) == 1):
		return false // The router has nothing to do with it.
	case !sharded(own) || !sharded(other):
		return true
	case relation.JoinTable != nil:
		// The join table is one of the shard, and a constraint holds its columns to that.
		return slices.ContainsFunc(relation.References, func(ref *schema.Reference) bool {
			return ref.PrimaryValue == "" && !t.holdsShard(ref.PrimaryKey)
		})
	}
	// A constraint holds such columns to the shard of their row, so equal values are on one shard.
	return !slices.ContainsFunc(relation.References, func(ref *schema.Reference) bool {
		return ref.PrimaryKey != nil && t.holdsShard(ref.PrimaryKey) && t.holdsShard(ref.ForeignKey)
	})
}

// Tables returns the tables of all models for an entry, which the map need not have.
func (t *Topology) Tables(e Entry) (tables []Table) {
	for _, m := range t.Sharded {
		for _, table := range t.TablesOf(m, e) {
			// Two models can have one join table.
			if !slices.ContainsFunc(tables, func(other Table) bool { return other.Name == table.Name }) {
				tables = append(tables, table)
			}
		}
	}
	return tables
}

// bases lists the tables of a shard, in their order and without its number.
func (t *Topology) bases() (names []string) {
	for _, table := range t.Tables(t.entries[0]) {
		names = append(names, table.Base)
	}
	return names
}

// TablesOf returns the tables of a model for an entry.
func (t *Topology) TablesOf(m *Model, e Entry) []Table {
	tables := []Table{t.tableOf(m.Base.Table, m.Value, m.checked, true, e)}
	for _, join := range m.Joins {
		tables = append(tables, t.tableOf(join.Base, reflect.New(join.row).Interface(), join.checked, false, e))
	}
	return tables
}

// tableOf returns a table. In a keyed one, the columns behind the first one have the key of another row of
// the shard, or NULL or 0 where there is none.
func (t *Topology) tableOf(base string, model any, columns []string, keyed bool, e Entry) Table {
	table := Table{Entry: e, Name: e.TableOn(base), Base: base, Model: model}
	kind := dialect.Kind(t.Databases[e.Database].Name())
	for i, column := range columns {
		if i == 0 {
			table.Column = column
		}
		check := newShardCheck(kind, table.Name, column, keyed && i > 0, t.Layout, e.Class)
		table.Checks = append(table.Checks, check)
	}
	return table
}

// noteCheckedColumns finds the columns with constraints when the topology is made. Later GORM may write the
// type of a foreign key again, without a lock, whenever it parses a model that refers to the key.
func (t *Topology) noteCheckedColumns() {
	for _, m := range t.Sharded {
		m.checked = []string{m.Key.DBName}
		if m.Like != nil && isIntegerColumn(m.Like) {
			m.checked = append(m.checked, m.Like.DBName)
		}
		for i := range m.Joins {
			join := &m.Joins[i]
			for _, ref := range join.relation.References {
				if ref.PrimaryKey != nil && t.holdsShard(ref.PrimaryKey) && isIntegerColumn(ref.PrimaryKey) {
					join.checked = append(join.checked, ref.ForeignKey.DBName)
				}
			}
		}
	}
}

// holdsShard reports whether a field of a sharded model always holds a key of the row's own shard: it is
// the primary key, or the field that the key is like.
func (t *Topology) holdsShard(field *schema.Field) bool {
	m := t.ByType[field.Schema.ModelType]
	if m == nil || m.Broadcast {
		return false
	}
	return field.Name == m.Key.Name || m.Like != nil && m.Like.Name == field.Name
}

// ErrMapClosed is the reason of an ErrShardMap while a shard is between its old tables and its new ones.
var ErrMapClosed = errors.New("the cutover of a shard has not ended: if it was interrupted, call " +
	"resharding.Resume, in any process")

// ErrMapReplaced is the reason of an ErrShardMap for a handle that is older than the tables of its shard.
var ErrMapReplaced = errors.New("the shard has been split, joined or moved since this handle was made, so " +
	"it was refused: get a handle from the router again")

// Invalid wraps a reason in the sentinel.
func Invalid(reason error) error { return fmt.Errorf("%w: %w", errs.ErrShardMap, reason) }

func isZeroLayout(l generator.Layout) bool {
	return l.TimeBits == 0 && l.SequenceBits == 0 && l.Node == nil && l.Tick == 0
}

// readsDifferently reports whether two layouts disagree about the parts of an ID.
func readsDifferently(a, b generator.Layout) bool {
	return !a.Epoch.Equal(b.Epoch) || a.Tick != b.Tick || a.TimeBits != b.TimeBits ||
		a.NodeBits() != b.NodeBits() || a.SequenceBits != b.SequenceBits
}
