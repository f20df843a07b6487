package snowflakeplugin

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// shardSchemas are GORM's schemas of the router's models on one shard. They are parsed anew for each
// shard, into a cache of their own, and then differ from the others in the names of tables only; the
// schemas of related models are parsed with them, and lead to tables of the same shard.
type shardSchemas struct {
	once   sync.Once
	cache  sync.Map
	byType map[reflect.Type]*schema.Schema
	names  renames
	err    error

	plugins atomic.Pointer[map[string]gorm.Plugin] // those of handles, see withRoute
}

// shardSchema is what a plan knows of the shard that its schema is for.
type shardSchema struct {
	of     *routing
	number int
}

// schemaOn returns the schema of a model, or of a join table, on a shard.
func (r *routing) schemaOn(shard int, t reflect.Type) (*schema.Schema, error) {
	s := &r.schemas[shard]
	s.once.Do(func() { s.err = r.parseSchemas(shard, s) })
	if s.err != nil {
		return nil, s.err
	}
	if found := s.byType[t]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("%w: %v", ErrNotSharded, t)
}

func (r *routing) parseSchemas(shard int, s *shardSchemas) error {
	namer := r.dbs[r.place[shard]].NamingStrategy
	s.byType, s.names = map[reflect.Type]*schema.Schema{}, renames{}
	for _, m := range r.models {
		if m.broadcast {
			continue
		}
		parsed, err := schema.Parse(m.value, &s.cache, namer)
		if err != nil {
			return fmt.Errorf("snowflakeplugin: %s on shard %d: %w", m.base.Name, shard, err)
		}
		if _, err := r.plugin.plans.prepareOn(parsed, &shardSchema{r, shard}, func() {}); err != nil {
			return err
		}
		r.withoutLeftOvers(parsed, shard)
		s.byType[m.base.ModelType] = parsed
	}
	for _, m := range r.models {
		if m.broadcast {
			continue
		}
		parsed := s.byType[m.base.ModelType]
		parsed.Table = tableOn(m.base.Table, shard)
		s.names[m.base.Table] = parsed.Table
		for _, relation := range parsed.Relationships.Many2Many {
			join := relation.JoinTable
			if s.byType[join.ModelType] == nil {
				base := join.Table
				join.Table = tableOn(base, shard)
				s.names[base] = join.Table
				s.byType[join.ModelType] = join
			}
		}
	}
	return nil
}

// tableOn is the name of a table on a shard. The number has two digits, or more where it needs
// them, however many shards there are: when they are doubled, no table changes its name.
func tableOn(base string, shard int) string { return fmt.Sprintf("%s_%02d", base, shard) }
