package router

import (
	"fmt"
	"reflect"
	"sync"

	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// schemas has GORM's schemas of the router's models, by shard.
type schemas struct {
	*shardmap.Topology
	shard []shardSchemas
}

// shardSchemas are the schemas on one shard. They are parsed separately for each shard, into a cache of
// their own, and differ only in the names of their tables. Schemas of related models are parsed together,
// so their relations lead to tables of the same shard.
type shardSchemas struct {
	once   sync.Once
	cache  sync.Map
	byType map[reflect.Type]*schema.Schema
	names  renames
	err    error
}

func newSchemas(t *shardmap.Topology) schemas { return schemas{t, make([]shardSchemas, t.ShardCount)} }

// on returns the schema of a model or a join table on a shard, and the names of the shard's tables.
func (s *schemas) on(shard int, t reflect.Type) (*schema.Schema, renames, error) {
	of := &s.shard[shard]
	of.once.Do(func() { of.err = s.parse(shard, of) })
	if of.err != nil {
		return nil, nil, of.err
	}
	if found := of.byType[t]; found != nil {
		return found, of.names, nil
	}
	return nil, nil, fmt.Errorf("%w: %v", errs.ErrNotSharded, t)
}

func (s *schemas) parse(shard int, of *shardSchemas) error {
	namer := s.Databases[s.Place[shard]].NamingStrategy
	of.byType, of.names = map[reflect.Type]*schema.Schema{}, renames{}
	for _, m := range s.Models {
		if m.Broadcast {
			continue
		}
		parsed, err := schema.Parse(m.Value, &of.cache, namer)
		if err != nil {
			return fmt.Errorf("snowflakeplugin: %s on shard %d: %w", m.Base.Name, shard, err)
		}
		if _, err := s.Engine.Plans.PrepareOn(parsed, s.planShard(shard), func() {}); err != nil {
			return err
		}
		of.byType[m.Base.ModelType] = parsed
	}
	for _, m := range s.Models {
		if m.Broadcast {
			continue
		}
		parsed := of.byType[m.Base.ModelType]
		parsed.Table = shardmap.TableOn(m.Base.Table, shard)
		of.names[m.Base.Table] = parsed.Table
		for _, relation := range parsed.Relationships.Many2Many {
			join := relation.JoinTable
			if of.byType[join.ModelType] == nil {
				base := join.Table
				join.Table = shardmap.TableOn(base, shard)
				of.names[base] = join.Table
				of.byType[join.ModelType] = join
			}
		}
	}
	return nil
}

// planShard describes the shard to the plans that fill rows.
func (s *schemas) planShard(number int) *fill.Shard {
	return fill.NewShard(number, s.ShardCount, func(of *schema.Schema, key any) error {
		return keyRules{s.Topology}.checkKey(of, key, number)
	})
}
