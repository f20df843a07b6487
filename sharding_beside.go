package snowflakeplugin

import (
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// A join or a preload of children sees the rows of one shard. Where the models do not say that the
// rows of both sides lie beside each other it would find some of them, by chance, and not tell.

// relationOf names a relation of a model.
type relationOf struct {
	model reflect.Type
	name  string
}

// relate finds the relations between the router's models whose rows may be on different shards.
func (r *routing) relate() {
	r.far = map[relationOf]*schema.Relationship{}
	for _, m := range r.models {
		if m.broadcast {
			continue
		}
		for name, relation := range m.base.Relationships.Relations {
			child, parent := relation.FieldSchema, relation.Schema
			switch relation.Type {
			case schema.BelongsTo:
				child, parent = parent, child
			case schema.HasOne, schema.HasMany:
			default:
				continue // the rows of a join table lie on the shard of its own side
			}
			if r.isFar(child, parent, relation) {
				r.far[relationOf{m.base.ModelType, name}] = relation
			}
		}
	}
}

// isFar reports whether nothing says that the rows of child lie beside those of parent.
func (r *routing) isFar(child, parent *schema.Schema, relation *schema.Relationship) bool {
	c, p := r.byType[child.ModelType], r.byType[parent.ModelType]
	if c == nil || p == nil || c.broadcast || p.broadcast {
		return false
	}
	like := r.like(c)
	for _, ref := range relation.References {
		if like != nil && ref.ForeignKey.Name == like.Name {
			return false
		}
	}
	// Not directly: both may be keyed like the same third, or like each other.
	parents := map[reflect.Type]bool{}
	if r.lead(p, parents) || parents[child.ModelType] {
		return false
	}
	parents[parent.ModelType] = true
	for next := c; like != nil; like = r.like(next) {
		if next = r.referred(next, like); next == nil || parents[next.base.ModelType] {
			return false
		}
	}
	return true
}

// lead collects the models that the key of a model leads to. It reports whether it leads to one that
// cannot be told.
func (r *routing) lead(m *shardModel, to map[reflect.Type]bool) (unknown bool) {
	for like := r.like(m); like != nil; like = r.like(m) {
		if m = r.referred(m, like); m == nil {
			return true
		}
		if to[m.base.ModelType] {
			return false
		}
		to[m.base.ModelType] = true
	}
	return false
}

// like returns the field that a model is keyed like, nil if there is none.
func (r *routing) like(m *shardModel) *schema.Field {
	field, _ := likeField(m.base, m.key)
	return field
}

// referred returns the model that a field holds keys of, nil if no relation says so.
func (r *routing) referred(m *shardModel, field *schema.Field) *shardModel {
	for _, other := range r.models {
		for _, relation := range other.base.Relationships.Relations {
			for _, ref := range relation.References {
				if refers(ref, m, field) {
					return r.byType[ref.PrimaryKey.Schema.ModelType]
				}
			}
		}
	}
	return nil
}

// refers reports whether a reference is of that field of the model to a primary key.
func refers(ref *schema.Reference, m *shardModel, field *schema.Field) bool {
	from, to := ref.ForeignKey, ref.PrimaryKey
	return from != nil && from.Name == field.Name && from.Schema != nil &&
		from.Schema.ModelType == m.base.ModelType && to != nil && to.PrimaryKey
}

// checkRelations refuses joins and preloads that may lead to other shards.
func (r *routing) checkRelations(stmt *gorm.Statement) error {
	if len(r.far) == 0 {
		return nil
	}
	for name := range stmt.Preloads {
		name, _, _ = strings.Cut(name, ".") // what follows is preloaded by statements of its own
		for of, relation := range r.far {
			// The parent of a row is looked up by its key, which tells its shard.
			if of.model == stmt.Schema.ModelType && (of.name == name || name == clause.Associations) &&
				relation.Type != schema.BelongsTo {
				return far("preload", of.name, relation)
			}
		}
	}
	for _, join := range stmt.Joins {
		s := stmt.Schema
		for name := range strings.SplitSeq(join.Name, ".") {
			if relation := r.far[relationOf{s.ModelType, name}]; relation != nil {
				return far("join", join.Name, relation)
			}
			relation := s.Relationships.Relations[name]
			if relation == nil {
				break // SQL of the application
			}
			s = relation.FieldSchema
		}
	}
	return nil
}

func far(what, name string, relation *schema.Relationship) error {
	return fmt.Errorf("%w: %s %s: nothing says that the rows of %s and of %s lie beside each other: key the "+
		"one like the other by the tag %s:\"%sField\", or read them by the router", ErrCrossShard, what, name,
		relation.Schema.Name, relation.FieldSchema.Name, tagName, tagLike)
}
