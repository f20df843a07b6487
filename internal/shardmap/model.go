package shardmap

import (
	"context"
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// Model is a model of a router.
type Model struct {
	Value     any // a pointer to a zero struct, which nobody writes to
	Base      *schema.Schema
	Broadcast bool
	Key       *schema.Field // nil only for a broadcast model
	Like      *schema.Field // the field whose shard the key takes, or nil
	Joins     []joinTable   // none for a broadcast model
	checked   []string      // the columns of its tables that have a constraint, that of Like behind the key
}

// joinTable is a table that GORM makes for a many-to-many relation.
type joinTable struct {
	Base     string // its name without a shard number
	row      reflect.Type
	relation *schema.Relationship
	checked  []string // its columns with a constraint
}

// Table is a table that a model has on a shard: its own, or that of a many-to-many relation.
type Table struct {
	Entry  Entry
	Name   string
	Base   string // its name without the number of a shard
	Model  any
	Checks []Check
	// Column tells the shard of a row. It is empty for a join table without a key that is a number.
	Column string
}

// broadcastModel marks a model whose rows are in every database.
type broadcastModel struct{ model any }

// Broadcast marks a model for NewRouter.
func Broadcast(model any) any { return broadcastModel{model} }

// parseModel reads what GORM knows of a model. The key is left to the caller.
func parseModel(i int, given any, db *gorm.DB) (*Model, error) {
	m := &Model{}
	if b, ok := given.(broadcastModel); ok {
		given, m.Broadcast = b.model, true
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(given); err != nil {
		return nil, fmt.Errorf("model %d, %T: %w", i, given, err)
	}
	m.Base = stmt.Schema
	m.Value = reflect.New(m.Base.ModelType).Interface()
	if m.Broadcast {
		return m, nil
	}
	// The names are copied now because GORM writes to the schemas of join tables each time it parses
	// the model.
	for _, relation := range m.Base.Relationships.Many2Many {
		if own := relation.JoinTable.ModelType.Name(); own != "" {
			return nil, fmt.Errorf("model %d, %s.%s: it has a join table of its own, %s, by SetupJoinTable, which "+
				"a shard does not have: pass %[4]s to NewRouter, with a key like that of its parent, and let %[2]s "+
				"have many of it", i, m.Base.Name, relation.Name, own)
		}
		m.Joins = append(m.Joins, joinTable{
			Base: relation.JoinTable.Table, row: relation.JoinTable.ModelType, relation: relation,
		})
	}
	return m, nil
}

// Slice returns a pointer to an empty slice of the model.
func (m *Model) Slice() any { return reflect.New(reflect.SliceOf(m.Base.ModelType)).Interface() }

// Subject returns what a handle for a value is bound to. A row with a key is bound itself, because
// GORM then adds its key as a condition. An empty row only names the model, and goroutines may share
// it as they may share the handle, so the model's own zero value takes its place.
func (m *Model) Subject(ctx context.Context, value any) any {
	t := reflect.TypeOf(value)
	if t.Kind() != reflect.Pointer || t.Elem() != m.Base.ModelType || reflect.ValueOf(value).IsNil() {
		return m.Value
	}
	if m.Key != nil {
		if _, empty := m.Key.ValueOf(ctx, reflect.ValueOf(value).Elem()); empty {
			return m.Value
		}
	}
	return value
}

// IDOf returns the ID of a row, or 0 if it has none.
func (m *Model) IDOf(ctx context.Context, row reflect.Value) int64 {
	value, _ := m.Key.ValueOf(ctx, row)
	id, _ := fill.IDOf(value)
	return id
}
