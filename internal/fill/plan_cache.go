package fill

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// recentBits is the binary logarithm of the number of recent plans.
const recentBits = 6

// PlanCache holds the plans of a plugin. It keeps them by schema and not by type, because a type has
// another schema in every gorm.Open, and for every special table name. It is safe for concurrent use.
type PlanCache struct {
	frames frameTable      // of the statements that run
	digits int             // decimal digits of the largest ID
	wrap   func(int64) any // turns a number into an ID of the application
	named  map[string]Source
	// unnamed means that nobody needs the named sources, because no row is filled.
	unnamed bool

	// recent has plans that were asked for, each in the place of its schema. A map takes several times as
	// long, and every create asks.
	recent [1 << recentBits]atomic.Pointer[Plan]
	// plans is replaced as a whole by whoever adds to it, because many creates read it.
	plans atomic.Pointer[map[*schema.Schema]*Plan]
	mu    sync.Mutex // one plan is made at a time: making one changes the schema
}

// NewPlans returns an empty cache for IDs of up to so many digits, and for fields that name one of the
// sources. It is for looking at models only if named is nil.
func NewPlans(digits int, wrap func(int64) any, named map[string]Source) *PlanCache {
	return &PlanCache{digits: digits, wrap: wrap, named: named, unnamed: named == nil}
}

// known returns the plan of a schema if it was made already.
func (c *PlanCache) known(s *schema.Schema) *Plan {
	recent := &c.recent[spread(s, recentBits)]
	if p := recent.Load(); p != nil && p.schema == s {
		return p
	}
	plans := c.plans.Load()
	if plans == nil {
		return nil
	}
	p := (*plans)[s]
	if p != nil {
		recent.Store(p)
	}
	return p
}

// Of returns the plan of a schema, making it on first use.
func (c *PlanCache) Of(s *schema.Schema) *Plan {
	if p := c.known(s); p != nil {
		return p
	}
	made, _ := c.Prepare(s)
	return made
}

// Prepare makes the plan of a schema and tells GORM that its tagged fields are plain columns.
func (c *PlanCache) Prepare(s *schema.Schema) (*Plan, error) { return c.PrepareOn(s, nil, func() {}) }

// PrepareOn is Prepare for the schema of a model on one shard, unless on is nil. Before it makes the
// plan it calls first, which may change the schema.
func (c *PlanCache) PrepareOn(s *schema.Schema, on *Shard, first func()) (*Plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.known(s); p != nil {
		return p, p.err
	}
	first()
	p := c.makePlan(s)
	p.shard, p.wrap = on, c.wrap
	p.bound = p.bound || on != nil
	p.oneCell = p.hasOneCell()
	for _, column := range p.columns {
		plainColumn(s, column.field)
		notNull(column.field)
		column.noZeroKeys()
	}
	plans := map[*schema.Schema]*Plan{s: p}
	if old := c.plans.Load(); old != nil {
		maps.Copy(plans, *old)
	}
	c.plans.Store(&plans)
	return p, p.err
}

// makePlan finds the fields to fill.
func (c *PlanCache) makePlan(s *schema.Schema) *Plan {
	relations := &s.Relationships
	p := &Plan{schema: s, refills: s.BeforeCreate || s.BeforeSave}
	p.tree = len(relations.BelongsTo)+len(relations.HasOne)+
		len(relations.HasMany)+len(relations.Many2Many) > 0
	p.nests = p.tree || p.refills || s.AfterCreate || s.AfterSave
	if isJoinTable(s) {
		return p
	}
	var faults []error
	for _, field := range s.Fields {
		tagged, err := isTagged(field.Tag)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%w: %s.%s: "+
				"%w", errs.ErrInvalidField, s.Name, field.Name, err))
			continue
		case !tagged || !isColumn(s, field) || isForeignKey(s, field):
			continue
		}
		column, err := c.newColumn(s, field)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: %s.%s: "+
				"%w", errs.ErrInvalidField, s.Name, field.Name, err))
			continue
		}
		p.bound = p.bound || column.like != nil
		p.named = p.named || column.from != nil
		p.columns = append(p.columns, column)
	}
	faults = append(faults, idleTags(s)...)
	faults = append(faults, textForeignKeys(s)...)
	faults = append(faults, c.jsonStrings(s)...)
	if len(p.columns) > maxColumns {
		faults = append(faults, fmt.Errorf("%w: %s has %d tagged fields, at most %d are supported",
			errs.ErrInvalidField, s.Name, len(p.columns), maxColumns))
	}
	p.err = errors.Join(faults...)
	return p
}

// newColumn reads the tag and the type of a field.
func (c *PlanCache) newColumn(s *schema.Schema, field *schema.Field) (*column, error) {
	from, err := c.from(field)
	if err != nil {
		return nil, err
	}
	column, err := newColumn(field, c.digits, from)
	if err == nil {
		column.like, err = LikeField(s, field)
	}
	return column, err
}

// from returns the source that the tag of a field names, or nil if it names none.
func (c *PlanCache) from(field *schema.Field) (*from, error) {
	name, found := strings.CutPrefix(field.Tag.Get(TagName), TagFrom)
	if !found {
		return nil, nil
	}
	source, known := c.named[name]
	if !known && !c.unnamed {
		there := "no named source"
		if len(c.named) > 0 {
			there = fmt.Sprintf("%q", slices.Sorted(maps.Keys(c.named)))
		}
		return nil, fmt.Errorf("tag %s:\"%s%s\" names a source that the plugin does not have: there is "+
			"%s; add "+
			"WithNumbers(%q, source) to the options of the plugin", TagName, TagFrom, name, there, name)
	}
	return newFrom(name, source), nil
}

// Unique returns the unique keys of the model by which a row can be looked up. They consist of whole
// columns, have no condition, and are not the primary key.
func (c *PlanCache) Unique(p *Plan) []UniqueKey {
	p.keysOnce.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, field := range p.schema.Fields {
			p.otherUnique = p.otherUnique || field.Unique
			if field.Unique && !field.PrimaryKey && field.DBName != "" {
				p.uniqueKeys = append(p.uniqueKeys, UniqueKey{field})
			}
		}
		// ParseIndexes writes to the schema, hence the lock.
		for _, index := range p.schema.ParseIndexes() {
			p.otherUnique = p.otherUnique || index.Class == "UNIQUE"
			if key, ok := lookupKey(index); ok {
				p.uniqueKeys = append(p.uniqueKeys, key)
			}
		}
	})
	return p.uniqueKeys
}

// hasOtherUnique reports whether the model has any unique key beside the primary key, also one by which no
// row can be looked up.
func (c *PlanCache) hasOtherUnique(p *Plan) bool {
	c.Unique(p)
	return p.otherUnique
}

// planOf returns the plan of a statement's model, or nil if the statement has no model.
func (c *PlanCache) planOf(stmt *gorm.Statement) *Plan {
	if stmt.Schema == nil {
		return nil
	}
	return c.Of(stmt.Schema)
}
