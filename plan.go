package snowflakeplugin

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

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// tagName is the struct tag that asks for an ID.
const tagName = "snowflake"

// tagLike begins a tag that asks for an ID on the shard of another field's.
const tagLike = "like:"

// columnMask is a set of the columns of a plan, by their index.
type columnMask uint64

// mostColumns is how many tagged fields a model may have: as many as a columnMask has bits.
const mostColumns = 64

// plan is what the plugin knows of a model. It is immutable, but for the lazily read unique keys.
type plan struct {
	schema  *schema.Schema
	columns []*column
	err     error // what is wrong with the tagged fields; reported by every create

	// tree: the model has associations, so that creating a row may create others. Then a failure
	// has to be undone in all of them.
	tree bool
	// nests: as tree, or the model has hooks, which may create rows as well.
	nests bool
	// refills: it has hooks that run before the insert, and may set an ID back to 0.
	refills bool
	// bound: some of its IDs have to lie on a certain shard.
	bound bool
	// shard is set for the schema of a router's model on one shard; its keys lie there.
	shard *shardSchema

	keysOnce   sync.Once
	uniqueKeys []uniqueKey
}

// has reports whether the column of that index is in the set.
func (m columnMask) has(c int) bool { return m>>c&1 == 1 }

// names lists columns for messages: Order.ID, Order.PublicID.
func (p *plan) names(columns columnMask) string {
	var names []string
	for c, column := range p.columns {
		if columns.has(c) {
			names = append(names, p.schema.Name+"."+column.field.Name)
		}
	}
	return strings.Join(names, ", ")
}

// planCache holds the plans of a plugin. They are kept by schema, not by type: the same type has
// another schema in every gorm.Open, and under every special table name.
type planCache struct {
	digits int // decimal digits of the largest ID

	// plans is replaced as a whole by whoever adds to it: reading is what every create does.
	plans atomic.Pointer[map[*schema.Schema]*plan]
	mu    sync.Mutex // one plan is made at a time: making one changes the schema
}

// known returns the plan of a schema if it was made already.
func (c *planCache) known(s *schema.Schema) *plan {
	if plans := c.plans.Load(); plans != nil {
		return (*plans)[s]
	}
	return nil
}

// of returns the plan of a schema, making it on first use.
func (c *planCache) of(s *schema.Schema) *plan {
	if p := c.known(s); p != nil {
		return p
	}
	made, _ := c.prepare(s)
	return made
}

// likeOf returns the field whose shard the IDs of a field share, nil if they need not.
func (p *plan) likeOf(field *schema.Field) *schema.Field {
	for _, column := range p.columns {
		if column.field == field {
			return column.like
		}
	}
	return nil
}

// routes reports whether the statement's shard decides where the IDs of a column lie.
func (p *plan) routes(column *column) bool { return p.shard != nil && column.field.PrimaryKey }

// prepare makes the plan of a schema and tells GORM that its tagged fields are plain columns.
func (c *planCache) prepare(s *schema.Schema) (*plan, error) { return c.prepareOn(s, nil, func() {}) }

// prepareOn is prepare for a schema that is that of one shard, unless shard is nil. Before it makes
// the plan it calls first, which may change the schema.
func (c *planCache) prepareOn(s *schema.Schema, shard *shardSchema, first func()) (*plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.known(s); p != nil {
		return p, p.err
	}
	first()
	p := c.makePlan(s)
	p.shard = shard
	p.bound = p.bound || shard != nil
	for _, column := range p.columns {
		plainColumn(s, column.field)
	}
	plans := map[*schema.Schema]*plan{s: p}
	if old := c.plans.Load(); old != nil {
		maps.Copy(plans, *old)
	}
	c.plans.Store(&plans)
	return p, p.err
}

// makePlan finds the fields to fill.
func (c *planCache) makePlan(s *schema.Schema) *plan {
	relations := &s.Relationships
	p := &plan{schema: s, refills: s.BeforeCreate || s.BeforeSave}
	p.tree = len(relations.BelongsTo)+len(relations.HasOne)+
		len(relations.HasMany)+len(relations.Many2Many) > 0
	p.nests = p.tree || p.refills || s.AfterCreate || s.AfterSave
	if isJoinTable(s) {
		return p
	}
	var faults []error
	for _, field := range s.Fields {
		tagged, err := isTagged(field)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%w: %s.%s: %w", ErrInvalidField, s.Name, field.Name, err))
			continue
		case !tagged || !isColumn(s, field) || isForeignKey(s, field):
			continue
		}
		column, err := newColumn(field, c.digits)
		if err == nil {
			column.like, err = likeField(s, field)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: %s.%s: %w", ErrInvalidField, s.Name, field.Name, err))
			continue
		}
		p.bound = p.bound || column.like != nil
		p.columns = append(p.columns, column)
	}
	if len(p.columns) > mostColumns {
		faults = append(faults, fmt.Errorf("%w: %s has %d tagged fields, at most %d are supported",
			ErrInvalidField, s.Name, len(p.columns), mostColumns))
	}
	p.err = errors.Join(faults...)
	return p
}

// isTagged reads the snowflake tag of a field.
func isTagged(field *schema.Field) (bool, error) {
	value, present := field.Tag.Lookup(tagName)
	if !present {
		return false, nil
	}
	if strings.HasPrefix(value, tagLike) {
		return true, nil
	}
	tagged, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("tag %s:%q is not a boolean: write %s:\"true\"", tagName, value, tagName)
	}
	return tagged, nil
}

// likeField returns the field whose shard the IDs of a field share, nil if they need not.
func likeField(s *schema.Schema, field *schema.Field) (*schema.Field, error) {
	name, found := strings.CutPrefix(field.Tag.Get(tagName), tagLike)
	if !found {
		return nil, nil
	}
	like := s.LookUpField(name)
	if like == nil || like == field || like.DBName == "" {
		return nil, fmt.Errorf("tag %s:\"%s%s\" names no other column of %s: name the field that holds the ID "+
			"of the row to be beside", tagName, tagLike, name, s.Name)
	}
	return like, nil
}

// isColumn reports whether the field stands for a column that a create may write: not one that
// is hidden by a field of the outer struct, excluded, or read-only.
func isColumn(s *schema.Schema, field *schema.Field) bool {
	return field.DBName != "" && s.FieldsByDBName[field.DBName] == field && field.Creatable
}

// isForeignKey reports whether the field refers to another row. Such a field may carry the tag
// because it comes from a shared struct; an ID made for it would point nowhere.
//
// Relationships.Relations is not looked at: other schemas write into it while they are parsed.
func isForeignKey(s *schema.Schema, field *schema.Field) bool {
	for _, relation := range s.Relationships.BelongsTo {
		for _, ref := range relation.References {
			if ref.ForeignKey == field {
				return true
			}
		}
	}
	return false
}

// isJoinTable reports whether the schema is that of a join table that GORM made up for a
// many-to-many relation. Its fields, foreign keys all of them, are copies of the primary keys of
// both sides, tags included. GORM builds the struct without a name and puts the two models
// themselves in it, excluded, as its last fields.
func isJoinTable(s *schema.Schema) bool {
	t := s.ModelType
	if t.Name() != "" || t.Kind() != reflect.Struct || t.NumField() == 0 {
		return false
	}
	last := t.Field(t.NumField() - 1)
	return last.Type.Kind() == reflect.Struct && last.Tag.Get("gorm") == "-"
}

// plainColumn tells GORM that the values of a field come from the program. It must happen before
// the first statement of the schema is built; the caller sees to that.
func plainColumn(s *schema.Schema, field *schema.Field) {
	if !field.AutoIncrement {
		return
	}
	field.AutoIncrement = false
	field.HasDefaultValue = false
	field.TagSettings["AUTOINCREMENT"] = "false"
	s.FieldsWithDefaultDBValue = slices.DeleteFunc(slices.Clone(s.FieldsWithDefaultDBValue),
		func(f *schema.Field) bool { return f == field })
}

// digitsOf is how many decimal digits the largest ID of a layout has.
func digitsOf(l generator.Layout) int {
	largest := uint64(1)<<(l.TimeBits+l.NodeBits()+l.SequenceBits) - 1
	return len(strconv.FormatUint(largest, 10))
}

// uniqueKey is a set of columns of which the model says that no two rows share all values.
type uniqueKey []*schema.Field

// unique returns the unique keys of the model that a row can be looked up by: whole columns,
// under no condition, other than the primary key.
func (c *planCache) unique(p *plan) []uniqueKey {
	p.keysOnce.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, field := range p.schema.Fields {
			if field.Unique && !field.PrimaryKey && field.DBName != "" {
				p.uniqueKeys = append(p.uniqueKeys, uniqueKey{field})
			}
		}
		// ParseIndexes writes to the schema, hence the lock.
		for _, index := range p.schema.ParseIndexes() {
			if key, ok := lookupKey(index); ok {
				p.uniqueKeys = append(p.uniqueKeys, key)
			}
		}
	})
	return p.uniqueKeys
}

// lookupKey turns an index into a key, if it is unique over whole columns of all rows.
func lookupKey(index *schema.Index) (uniqueKey, bool) {
	if index.Class != "UNIQUE" || index.Where != "" {
		return nil, false
	}
	var key uniqueKey
	for _, part := range index.Fields {
		if part.Field == nil || part.Expression != "" || part.Length > 0 {
			return nil, false
		}
		key = append(key, part.Field)
	}
	return key, len(key) > 0
}

// planOf returns the plan of a statement's model, or nil when it has none.
func (c *planCache) planOf(stmt *gorm.Statement) *plan {
	if stmt.Schema == nil {
		return nil
	}
	return c.of(stmt.Schema)
}
