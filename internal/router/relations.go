package router

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// relations has what the guard needs to know of the relations of a router's models.
type relations struct {
	topology *shardmap.Topology
	// columns has, for each model, the columns by which relations look for its rows that all cross.
	columns map[reflect.Type]map[string][]*schema.Relationship
}

// relationsOf looks at every relation of every model.
func relationsOf(t *shardmap.Topology) relations {
	r := relations{t, map[reflect.Type]map[string][]*schema.Relationship{}}
	for _, m := range t.Sharded {
		r.columns[m.Base.ModelType] = map[string][]*schema.Relationship{}
	}
	for _, m := range t.Models {
		for _, relation := range allRelations(m.Base) {
			other := t.ByType[relation.FieldSchema.ModelType]
			if other == nil || other.Broadcast || relation.JoinTable != nil {
				continue
			}
			columns := r.columns[other.Base.ModelType]
			for _, ref := range relation.References {
				column := ref.PrimaryKey
				if ref.OwnPrimaryKey {
					column = ref.ForeignKey
				}
				// Others are the type of a polymorphic parent, or their values are checked.
				if ref.PrimaryValue == "" && column.DBName != other.Key.DBName {
					columns[column.DBName] = append(columns[column.DBName], relation)
				}
			}
		}
	}
	stays := func(relation *schema.Relationship) bool { return !t.Crosses(relation) }
	for _, columns := range r.columns {
		maps.DeleteFunc(columns, func(_ string, by []*schema.Relationship) bool {
			return slices.ContainsFunc(by, stays)
		})
	}
	return r
}

// allRelations lists the relations of a model, those of embedded structs included.
func allRelations(s *schema.Schema) []*schema.Relationship {
	all := &s.Relationships
	return slices.DeleteFunc(slices.Concat(all.BelongsTo, all.HasOne, all.HasMany, all.Many2Many),
		func(r *schema.Relationship) bool { return r.Field == nil || r.FieldSchema == nil })
}

// pathOf is how a relation is named in its model: Items, or Address.Country in an embedded struct.
func pathOf(relation *schema.Relationship) string {
	if names := relation.Field.EmbeddedBindNames; len(names) > 1 {
		return strings.Join(names, ".")
	}
	return relation.Name
}

// checkFollowed refuses joins and preloads in a statement that may lead to other shards.
func (r relations) checkFollowed(stmt *gorm.Statement) error {
	for name := range stmt.Preloads {
		if name == clause.Associations || strings.HasPrefix(name, clause.Associations+".") {
			for _, relation := range allRelations(stmt.Schema) {
				if relation.Schema == stmt.Schema && r.topology.Crosses(relation) {
					return crossingError("preload", pathOf(relation), relation)
				}
			}
			continue
		}
		// Statements of their own preload the rest of the path.
		if relation := preloaded(stmt.Schema, name); relation != nil && r.topology.Crosses(relation) {
			return crossingError("preload", name, relation)
		}
	}
	for _, join := range stmt.Joins {
		s := stmt.Schema
		for name := range strings.SplitSeq(join.Name, ".") {
			relation := s.Relationships.Relations[name]
			if relation == nil {
				break // It is SQL of the application, not the name of a relation.
			}
			if r.topology.Crosses(relation) {
				return crossingError("join", join.Name, relation)
			}
			s = relation.FieldSchema
		}
	}
	return nil
}

// preloaded finds the first relation on a path, which may begin with embedded structs.
func preloaded(s *schema.Schema, path string) *schema.Relationship {
	known := &s.Relationships
	for name := range strings.SplitSeq(path, ".") {
		if embedded := known.EmbeddedRelations[name]; embedded != nil {
			known = embedded
			continue
		}
		return known.Relations[name]
	}
	return nil
}

// checkAssociation refuses what db.Association does with the rows at the other end of a crossing relation.
// GORM begins such a statement on their model, with a condition that names the table as the model does. Only
// as text does an application write that name.
func (r relations) checkAssociation(stmt *gorm.Statement) error {
	if from, ok := stmt.Clauses["FROM"].Expression.(clause.From); ok {
		for _, join := range from.Joins {
			if join.Table.Name != "" && !r.isTableOfShards(join.Table.Name) && len(join.ON.Exprs) > 0 {
				return fmt.Errorf("%w: %s through the join table %s, which is not a table of the shards: "+
					"read the IDs from it, and the rows by Router.Find", errs.ErrCrossShard, stmt.Schema.Name,
					join.Table.Name)
			}
		}
	}
	columns := r.columns[stmt.Schema.ModelType]
	if len(columns) == 0 {
		return nil
	}
	where, _ := stmt.Clauses["WHERE"].Expression.(clause.Where)
	var found []*schema.Relationship
	eachComparison(where.Exprs, func(c comparison) {
		if !c.text && c.table == r.topology.ByType[stmt.Schema.ModelType].Base.Table {
			found = append(found, columns[c.name]...)
		}
	})
	if len(found) > 0 {
		return crossingError("association", pathOf(found[0]), found[0])
	}
	return nil
}

// isTableOfShards reports whether a name without a shard number is that of a model or a join table.
func (r relations) isTableOfShards(name string) bool {
	for _, m := range r.topology.Models {
		if m.Base.Table == name {
			return true
		}
		for _, join := range m.Joins {
			if join.Base == name {
				return true
			}
		}
	}
	return false
}

// checkDeleted refuses a delete that takes rows of a crossing relation along.
func (r relations) checkDeleted(stmt *gorm.Statement) error {
	if len(stmt.Selects) == 0 {
		return nil
	}
	chosen, _ := stmt.SelectAndOmitColumns(true, false)
	for _, relation := range allRelations(stmt.Schema) {
		if chosen[relation.Name] && relation.Type != schema.BelongsTo && r.topology.Crosses(relation) {
			return crossingError("delete", pathOf(relation), relation)
		}
	}
	return nil
}

// checkNested refuses rows that would be saved over a crossing relation. creates tells an INSERT from an
// UPDATE, for which GORM chooses the relations differently.
func (r relations) checkNested(stmt *gorm.Statement, creates bool) error {
	for _, relation := range allRelations(stmt.Schema) {
		if !r.topology.Crosses(relation) || !holdsRows(stmt, relation, stmt.ReflectValue) {
			continue
		}
		chosen, restricted := stmt.SelectAndOmitColumns(creates, !creates)
		if wanted, named := chosen[relation.Name]; wanted || !named && !restricted {
			return crossingError("save", pathOf(relation), relation)
		}
	}
	return nil
}

// holdsRows reports whether a row, or one of several, has rows in the field of a relation.
func holdsRows(stmt *gorm.Statement, relation *schema.Relationship, v reflect.Value) (holds bool) {
	fill.EachStruct(v, stmt.Schema.ModelType, func(row reflect.Value) {
		if value, zero := relation.Field.ValueOf(stmt.Context, row); !zero {
			rows := reflect.Indirect(reflect.ValueOf(value))
			holds = holds || rows.Kind() != reflect.Slice && rows.Kind() != reflect.Array || rows.Len() > 0
		}
	})
	return holds
}

// crossingError says what to do in place of following the relation.
func crossingError(what, path string, relation *schema.Relationship) error {
	var keys []string
	for _, ref := range relation.References {
		if ref.ForeignKey != nil {
			keys = append(keys, ref.ForeignKey.Name)
		}
	}
	remedy := "read or store the other rows by methods of the Router, such as Find with their IDs"
	switch {
	case relation.Type == schema.Many2Many:
	case what == "save":
		remedy += fmt.Sprintf(", and leave the field out by Omit(%q)", relation.Name)
	default:
		remedy += fmt.Sprintf("; rows are colocated if the key of one is tagged %s:\"%s%s\"", fill.TagName,
			fill.TagLike, strings.Join(keys, ", "))
	}
	return fmt.Errorf("%w: %s %s.%s: the rows of %s may be on other shards: %s", errs.ErrCrossShard, what,
		relation.Schema.Name, path, relation.FieldSchema.Name, remedy)
}
