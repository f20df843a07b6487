package fill

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// PlanCache holds the plans of a plugin. The key of a plan is the schema and not the type of its model: GORM
// parses a type anew for every gorm.Open and for every table name that is set by hand, and each of these
// schemas needs a plan of its own. A PlanCache is safe for concurrent use.
type PlanCache struct {
	frames frameTable      // of the statements that run
	digits int             // decimal digits of the largest ID
	wrap   func(int64) any // turns a number into an ID of the application
	named  map[string]Source
	// Models are structs whose primary keys are filled without a tag, also where one of them is embedded in
	// another. Set them, and the watcher, before the first plan is made.
	Models  map[reflect.Type]bool
	Watcher Watcher

	// recent is a small table of plans in front of the map plans. The address of a schema chooses its element,
	// and a newer plan overwrites an older one there. Every create looks up a plan, and a map takes several
	// times as long.
	recent [1 << recentBits]atomic.Pointer[Plan]
	plans  sync.Map   // all plans, by the schema
	mu     sync.Mutex // held while a plan is made, because that changes the schema
}

// recentBits is the binary logarithm of the number of recent plans.
const recentBits = 6

// Watcher is told of models, for what a program should know of them. Its functions may be nil. They may be
// called by several goroutines at once, and may create rows.
type Watcher struct {
	// Planned is called with each new plan that has columns.
	Planned func(*Plan)
	// Replaced is called when a hook has put another value in place of an ID that was made for a field.
	Replaced func(*Plan, *schema.Field)
	// Counted is called when AutoMigrate finds that the database makes the values of a field itself.
	Counted func(*Plan, *schema.Field)
}

// NewPlans returns an empty cache for IDs of up to so many digits, and for fields that name one of the
// sources. It is for looking at models only if named is nil.
func NewPlans(digits int, wrap func(int64) any, named map[string]Source) *PlanCache {
	return &PlanCache{digits: digits, wrap: wrap, named: named}
}

// Of returns the plan of a schema, making it on first use.
func (c *PlanCache) Of(s *schema.Schema) *Plan {
	if p := c.known(s); p != nil {
		return p
	}
	made, _ := c.Prepare(s)
	return made
}

// planOf returns the plan of a statement's model, or nil if the statement has no model.
func (c *PlanCache) planOf(stmt *gorm.Statement) *Plan {
	if stmt.Schema == nil {
		return nil
	}
	return c.Of(stmt.Schema)
}

// known returns the plan of a schema if it was made already.
func (c *PlanCache) known(s *schema.Schema) *Plan {
	recent := &c.recent[spread(s, recentBits)]
	if p := recent.Load(); p != nil && p.schema == s {
		return p
	}
	found, _ := c.plans.Load(s)
	p, is := found.(*Plan)
	if is {
		recent.Store(p)
	}
	return p
}

// spread returns a number of so many bits for what a pointer leads to. Its address decides, because Go does
// not move what lies on the heap; hash/maphash relies on that as well. Every create asks several times, so
// the time of a better hash would be felt.
func spread[T any](pointer *T, bits int) uint64 {
	const fibonacci = 0x9E3779B97F4A7C15        // 2^64 by the golden ratio: neighbors come to lie far apart
	address := uintptr(unsafe.Pointer(pointer)) // reflect tells it as well, by a call
	return uint64(address) * fibonacci >> (64 - bits)
}

// Prepare makes the plan of a schema and tells GORM that its tagged fields are plain columns.
func (c *PlanCache) Prepare(s *schema.Schema) (*Plan, error) { return c.PrepareOn(s, nil, func() {}) }

// PrepareOn is Prepare for the schema of a model on one shard, unless shard is nil. Before it
// makes the plan it calls first, which may change the schema.
func (c *PlanCache) PrepareOn(s *schema.Schema, shard *Shard, first func()) (*Plan, error) {
	p, isNew := c.prepare(s, shard, first)
	if isNew && len(p.columns) > 0 && c.Watcher.Planned != nil {
		c.Watcher.Planned(p)
	}
	return p, p.err
}

// prepare returns the plan of a schema, and whether it was made for that.
func (c *PlanCache) prepare(s *schema.Schema, shard *Shard, first func()) (p *Plan, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.known(s); p != nil {
		return p, false
	}
	first()
	p = c.makePlan(s)
	p.shard = shard
	p.isOneCell = p.err == nil && len(p.columns) == 1 && p.columns[0].plain && !p.nests &&
		p.columns[0].like == nil && shard == nil
	for _, column := range p.columns {
		plainColumn(s, column.field)
		notNull(column.field)
		column.noZeroKeys()
	}
	c.plans.Store(s, p)
	return p, true
}

// asks reports whether a field asks for an ID: by its tag, or because it is the primary key of a model that
// needs none.
func (c *PlanCache) asks(s *schema.Schema, field *schema.Field) (bool, error) {
	asks, err := isTagged(field.Tag)
	if _, tagged := field.Tag.Lookup(TagName); asks || tagged || err != nil || !field.PrimaryKey {
		return asks, err
	}
	// The structs from the model inwards to the one that has the field.
	asks, owner := c.Models[s.ModelType], s.ModelType
	for _, name := range field.BindNames[:len(field.BindNames)-1] {
		embedded, found := owner.FieldByName(name)
		if !found {
			break
		}
		for owner = embedded.Type; owner.Kind() == reflect.Pointer; {
			owner = owner.Elem()
		}
		asks = asks || c.Models[owner]
	}
	if asks && len(s.PrimaryFields) > 1 {
		return false, fmt.Errorf("the model is one whose key is filled without a tag, and the key has %d "+
			"fields: tag the one that is to be filled, and leave the model out of WithModels", len(s.PrimaryFields))
	}
	return asks, nil
}

// makePlan finds the fields to fill.
func (c *PlanCache) makePlan(s *schema.Schema) *Plan {
	p := &Plan{schema: s, cache: c, refills: s.BeforeCreate || s.BeforeSave}
	p.tree = len(ownRelations(s))+len(s.Relationships.Many2Many) > 0
	p.nests = p.tree || p.refills || s.AfterCreate || s.AfterSave
	if isJoinTable(s) {
		return p
	}
	var faults []error
	for _, field := range s.Fields {
		column, err := c.newColumn(s, field)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: %s.%s: %w", errs.ErrInvalidField, s.Name, field.Name, err))
		}
		if column == nil || err != nil {
			continue
		}
		if column.source != nil {
			p.numbered += "\x00" + field.DBName + "\x00" + column.source.name
		}
		p.columns = append(p.columns, column)
	}
	for _, column := range p.columns {
		column.grows = slices.ContainsFunc(p.columns, column.growsWith)
	}
	faults = append(faults, p.idleTags(s)...)
	faults = append(faults, c.unfitForeignKeys(s)...)
	faults = append(faults, c.jsonStrings(s)...)
	if len(p.columns) > maxColumns {
		faults = append(faults, fmt.Errorf("%w: %s has %d tagged fields, at most %d are supported",
			errs.ErrInvalidField, s.Name, len(p.columns), maxColumns))
	}
	p.err = errors.Join(faults...)
	return p
}

// newColumn reads the tag and the type of a field. It returns nil for one that is not to be filled.
func (c *PlanCache) newColumn(s *schema.Schema, field *schema.Field) (*column, error) {
	asks, err := c.asks(s, field)
	if err != nil || !asks || !isColumn(s, field) || isForeignKey(s, field) {
		return nil, err
	}
	source, err := c.sourceOf(field)
	if err != nil {
		return nil, err
	}
	column, err := newColumn(field, c.digits, source)
	if err == nil {
		column.like, err = LikeField(s, field)
	}
	return column, err
}

// sourceOf returns the source that the tag of a field names, or nil if it names none.
func (c *PlanCache) sourceOf(field *schema.Field) (*namedSource, error) {
	name, found := strings.CutPrefix(field.Tag.Get(TagName), TagFrom)
	if !found {
		return nil, nil
	}
	source, known := c.named[name]
	if !known && c.named != nil {
		there := "no named source"
		if len(c.named) > 0 {
			there = fmt.Sprintf("%q", slices.Sorted(maps.Keys(c.named)))
		}
		return nil, fmt.Errorf("tag %s:\"%s%s\" names a source that the plugin does not have: there is %s; add "+
			"WithNumbers(%q, source) to the options of the plugin", TagName, TagFrom, name, there, name)
	}
	texter, _ := source.(Texter)
	return &namedSource{name, source, texter}, nil
}

// jsonStrings finds fields of the application's type of IDs with the option ",string" in their json tag.
// Such an ID writes itself as a string already, and encoding/json takes the quotes off before it reads one.
func (c *PlanCache) jsonStrings(s *schema.Schema) []error {
	id := reflect.TypeOf(c.wrap(0))
	var faults []error
	for _, field := range s.Fields {
		options := strings.Split(field.Tag.Get("json"), ",")
		if field.IndirectFieldType != id || !isDefinedInteger(id) || !slices.Contains(options[1:], "string") {
			continue // a plain int64 is read as it is written
		}
		right := slices.DeleteFunc(options, func(option string) bool { return option == "string" })
		faults = append(faults, fmt.Errorf("%w: %s.%s: tag json:%q has the option \",string\", by which "+
			"encoding/json cannot read the IDs that it writes: %v is a string in JSON by itself, so write json:%q",
			errs.ErrInvalidField, s.Name, field.Name, field.Tag.Get("json"), id, strings.Join(right, ",")))
	}
	return faults
}

// readKeys reads the unique keys of the model.
func (p *Plan) readKeys() {
	p.keysOnce.Do(func() {
		p.cache.mu.Lock()
		defer p.cache.mu.Unlock()
		p.indexes = map[string][]*schema.Field{}
		for name, constraint := range p.schema.ParseUniqueConstraints() {
			p.indexes[name] = []*schema.Field{constraint.Field}
		}
		for _, field := range p.schema.Fields {
			if field.Unique && !field.PrimaryKey && field.DBName != "" {
				p.uniqueKeys = append(p.uniqueKeys, UniqueKey{field})
			}
		}
		// ParseIndexes writes to the schema, hence the lock.
		for _, index := range p.schema.ParseIndexes() {
			if index.Class != "UNIQUE" {
				continue
			}
			fields, ofRows := columnsOf(index)
			p.indexes[index.Name] = fields
			if ofRows {
				p.uniqueKeys = append(p.uniqueKeys, fields)
			}
		}
	})
}

// Unique returns the unique keys of the model by which a row can be looked up. They consist of whole
// columns, have no condition, and are not the primary key.
func (p *Plan) Unique() []UniqueKey {
	p.readKeys()
	return p.uniqueKeys
}

// uniqueIndexes returns the columns of every unique index of the model beside the primary key, by its name,
// also of those by which no row can be looked up.
func (p *Plan) uniqueIndexes() map[string][]*schema.Field {
	p.readKeys()
	return p.indexes
}

// Numbered is a column with numbers of a named source.
type Numbered struct {
	Column, Name string
	Source       Source
	// Field is the field of the column, with its model, for messages.
	Field string
	// Unique means that no two rows have the same number, whatever else they have: the column is the primary
	// key or has a unique index by itself.
	Unique bool
}

// numberedColumns lists the columns with numbers of named sources.
func (p *Plan) numberedColumns() (columns []Numbered) {
	for _, column := range p.columns {
		if column.source == nil {
			continue
		}
		field := column.field
		alone := func(key UniqueKey) bool { return len(key) == 1 && key[0] == field }
		columns = append(columns, Numbered{
			Column: field.DBName, Name: column.source.name, Source: column.source.source,
			Field:  p.schema.Name + "." + field.Name,
			Unique: alone(p.schema.PrimaryFields) || slices.ContainsFunc(p.Unique(), alone),
		})
	}
	return columns
}

// Unguarded returns the fields with numbers of named sources that are in no unique index of the model, so
// that nothing refuses a number that was given twice.
func (p *Plan) Unguarded() (fields []*schema.Field) {
	indexes := p.uniqueIndexes()
	for _, column := range p.columns {
		guarded := column.source == nil || column.field.PrimaryKey
		for _, index := range indexes {
			guarded = guarded || slices.Contains(index, column.field)
		}
		if !guarded {
			fields = append(fields, column.field)
		}
	}
	return fields
}

// columnMask is a set of the columns of a plan, by their index.
type columnMask uint64

// maxColumns is how many tagged fields a model may have: as many as a columnMask has bits.
const maxColumns = 64

// has reports whether the column of that index is in the set.
func (m columnMask) has(c int) bool { return m>>c&1 == 1 }

// Plan is what the plugin knows of a model. It is immutable, except that the unique keys are read on
// first use.
type Plan struct {
	schema  *schema.Schema
	columns []*column
	err     error // what is wrong with the tagged fields; reported by every create

	// tree: the model has associations, so creating a row may create others. Then a failure has to be
	// undone in all of them.
	tree bool
	// nests: the model has associations, or hooks, which may create rows as well.
	nests bool
	// refills: the model has hooks that run before the INSERT and may set an ID back to 0.
	refills bool
	// isOneCell: a struct of the model has one cell to fill, and nothing else has to be remembered of it.
	isOneCell bool
	// numbered tells the columns with numbers of named sources, and their sources; empty if there are none.
	numbered string
	// shard is set for the schema of a router's model on one shard. The keys of its rows lie there.
	shard *Shard
	cache *PlanCache // that has made the plan

	reachOnce sync.Once
	reaches   bool // see reachesTagged

	keysOnce   sync.Once
	uniqueKeys []UniqueKey
	indexes    map[string][]*schema.Field
}

// Shard is where the rows of a plan lie: the shard of a number among so many.
type Shard struct {
	Number, Count int
	// Check refuses a key that lies on another shard.
	Check func(key any) error
}

// reachesTagged reports whether a create or an update of the model may create rows with tagged fields
// through its associations. The schemas of all models that it can reach are looked at once.
func (p *Plan) reachesTagged(db *gorm.DB) bool {
	if !p.tree {
		return false
	}
	p.reachOnce.Do(func() {
		p.reaches = p.reachesFrom(db, p.schema, map[*schema.Schema]bool{p.schema: true})
	})
	return p.reaches
}

func (p *Plan) reachesFrom(db *gorm.DB, s *schema.Schema, seen map[*schema.Schema]bool) bool {
	for _, related := range Related(s) {
		if seen[related] {
			continue
		}
		seen[related] = true
		// Another goroutine may still be parsing this schema. Parse waits for that. An error means
		// that no row of the model can be created.
		_ = (&gorm.Statement{DB: db}).Parse(reflect.New(related.ModelType).Interface())
		if slices.ContainsFunc(related.Fields, func(field *schema.Field) bool {
			tagged, err := p.cache.asks(related, field)
			return tagged || err != nil
		}) || len(p.idleTags(related)) > 0 || p.reachesFrom(db, related, seen) {
			return true
		}
	}
	return false
}

// ownRelations lists the associations without a join table.
func ownRelations(s *schema.Schema) []*schema.Relationship {
	return slices.Concat(s.Relationships.BelongsTo, s.Relationships.HasOne, s.Relationships.HasMany)
}

// Related lists the models at the other ends of a model's associations, and the join tables that the
// application has models for.
func Related(s *schema.Schema) []*schema.Schema {
	var related []*schema.Schema
	for _, relation := range slices.Concat(ownRelations(s), s.Relationships.Many2Many) {
		if relation.FieldSchema != nil {
			related = append(related, relation.FieldSchema)
		}
		if relation.JoinTable != nil && !isJoinTable(relation.JoinTable) {
			related = append(related, relation.JoinTable)
		}
	}
	return related
}

// names lists columns for messages: Order.ID, Order.PublicID.
func (p *Plan) names(columns columnMask) string {
	var names []string
	for c, column := range p.columns {
		if columns.has(c) {
			names = append(names, p.schema.Name+"."+column.field.Name)
		}
	}
	return strings.Join(names, ", ")
}

// noID is the error of a statement whose columns could get no ID.
func (p *Plan) noID(columns columnMask, cause error) error {
	return fmt.Errorf("snowflakeplugin: no ID for %s: %w", p.names(columns), cause)
}

// Schema returns the schema that a plan is for.
func (p *Plan) Schema() *schema.Schema { return p.schema }

// Fills reports whether the plugin fills a field of the model.
func (p *Plan) Fills(field *schema.Field) bool {
	return slices.ContainsFunc(p.columns, func(c *column) bool { return c.field == field })
}

// isBound reports whether the IDs of a column have to lie on a certain shard: that of another row, or that of
// the statement.
func (p *Plan) isBound(column *column) bool {
	return column.like != nil || p.shard != nil && column.field.PrimaryKey
}

// RoutingKey returns the field that a router can route by: the only field of the primary key, if it is
// tagged and an integer. Otherwise it returns nil.
func (p *Plan) RoutingKey() *schema.Field {
	for _, column := range p.columns {
		single := column.field.PrimaryKey && len(p.schema.PrimaryFields) == 1
		if single && column.kind == kindInt && !column.pointer && column.value.Size() == binaryLen {
			return column.field
		}
	}
	return nil
}

// Unroutable returns the name of the source of a key if the source cannot choose shards, and else "".
func (p *Plan) Unroutable(key *schema.Field) string {
	for _, column := range p.columns {
		if column.field != key || column.source == nil {
			continue
		}
		if _, can := column.source.source.(Liker); !can {
			return column.source.name
		}
	}
	return ""
}

// UniqueKey is a set of columns of which the model says that no two rows share all values.
type UniqueKey []*schema.Field

// columnsOf returns the columns of a unique index, and whether it is over whole columns of all rows.
func columnsOf(index *schema.Index) (fields []*schema.Field, ofRows bool) {
	ofRows = index.Where == ""
	for _, part := range index.Fields {
		if part.Field != nil {
			fields = append(fields, part.Field)
		}
		ofRows = ofRows && part.Field != nil && part.Expression == "" && part.Length <= 0
	}
	return fields, ofRows && len(fields) > 0
}

// unfitForeignKeys finds foreign keys that cannot hold the IDs to which they refer. GORM sets a field of
// text kind by a conversion that makes a character of a number, if the key is of the type ID or of another
// type made of an integer. Of an ID it stores the low bits in a small integer, and MySQL without strict mode
// the greatest number that a small column has.
func (c *PlanCache) unfitForeignKeys(s *schema.Schema) []error {
	var faults []error
	for _, relation := range slices.Concat(ownRelations(s), s.Relationships.Many2Many) {
		for _, ref := range relation.References {
			if ref.PrimaryKey == nil || ref.ForeignKey == nil {
				continue
			}
			is := ""
			switch kind := ref.ForeignKey.IndirectFieldType.Kind(); {
			case kind == reflect.String && isDefinedInteger(ref.PrimaryKey.IndirectFieldType):
				is = "text"
			case reflect.Int <= kind && kind <= reflect.Uint64 && integerBits(ref) < 64:
				if asks, _ := c.asks(ref.PrimaryKey.Schema, ref.PrimaryKey); !asks ||
					strings.HasPrefix(ref.PrimaryKey.Tag.Get(TagName), TagFrom) {
					continue
				}
				is = fmt.Sprintf("an integer of %d bits", integerBits(ref))
			default:
				continue
			}
			faults = append(faults, fmt.Errorf("%w: %s.%s is %s and refers to %s.%s, an ID: GORM would store "+
				"another value in it, so give it the type of the ID and no smaller size", errs.ErrInvalidField,
				ref.ForeignKey.Schema.Name, ref.ForeignKey.Name, is, ref.PrimaryKey.Schema.Name, ref.PrimaryKey.Name))
		}
	}
	return faults
}

// integerBits returns the bits that a foreign key made of an integer has in Go, or in its column if it has
// fewer. GORM gives it the type of its key, and a bigint from 33 bits on. Its own tag tells its size, because
// GORM writes to its DataType and Size while it parses another model.
func integerBits(ref *schema.Reference) int {
	size, err := strconv.Atoi(ref.ForeignKey.TagSettings["SIZE"])
	if err == nil && 0 < size && size <= 32 && slices.Contains([]schema.DataType{schema.Int, schema.Uint},
		ref.PrimaryKey.DataType) {
		return size
	}
	return int(ref.ForeignKey.IndirectFieldType.Size()) * 8
}

// isDefinedInteger reports whether a type is made of an integer and has a name of its own.
func isDefinedInteger(t reflect.Type) bool {
	return t.PkgPath() != "" && (t.Kind() == reflect.Int64 || t.Kind() == reflect.Uint64)
}

// idleTags finds tags on embedded structs in which no field asks for an ID. GORM takes the fields of such a
// struct for those of the model, and their own tags alone count.
func (p *Plan) idleTags(s *schema.Schema) []error {
	var holders []string
	tags, asked := map[string]reflect.StructTag{}, map[string]bool{}
	for _, field := range s.Fields {
		tagged, _ := p.cache.asks(s, field)
		outer, holder := s.ModelType, s.Name
		for _, name := range field.BindNames[:len(field.BindNames)-1] {
			embedded, found := outer.FieldByName(name)
			if !found {
				break
			}
			holder += "." + name
			if _, known := tags[holder]; !known {
				holders = append(holders, holder)
			}
			tags[holder], asked[holder] = embedded.Tag, asked[holder] || tagged
			for outer = embedded.Type; outer.Kind() == reflect.Pointer; {
				outer = outer.Elem()
			}
		}
	}
	var faults []error
	for _, holder := range holders {
		if tagged, err := isTagged(tags[holder]); !asked[holder] && (tagged || err != nil) {
			faults = append(faults, fmt.Errorf("%w: %s: tag `%s` is on an embedded struct, where it fills "+
				"nothing: tag the field of the key itself, or embed snowflakeplugin.Model in place of gorm.Model",
				errs.ErrInvalidField, holder, tags[holder]))
		}
	}
	return faults
}

// isJoinTable reports whether the schema belongs to a join table that GORM made up for a
// many-to-many relation. All its fields are foreign keys, copied from the primary keys of both sides
// together with their tags. GORM builds the struct without a name, and its last fields are the two
// models themselves, excluded by a tag.
func isJoinTable(s *schema.Schema) bool {
	t := s.ModelType
	if t.Name() != "" || t.Kind() != reflect.Struct || t.NumField() == 0 {
		return false
	}
	last := t.Field(t.NumField() - 1)
	return last.Type.Kind() == reflect.Struct && last.Tag.Get("gorm") == "-"
}

// DigitsOf returns how many decimal digits the largest ID of a layout has.
func DigitsOf(l generator.Layout) int {
	largest := uint64(1)<<(l.TimeBits+l.NodeBits()+l.SequenceBits) - 1
	return len(strconv.FormatUint(largest, 10))
}
