package router

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// shardModel is a model of a router.
type shardModel struct {
	value     any // a pointer to a zero struct, which nobody writes to
	base      *schema.Schema
	broadcast bool
	key       *schema.Field // nil only for a broadcast model
	like      *schema.Field // the field whose shard the key takes, or nil
	tables    []string      // by shard
	joins     []joinTable
	checked   []checkedColumn // of its tables
}

// joinTable is a table that GORM makes for a many-to-many relation.
type joinTable struct {
	base     string // its name without a shard number
	of       reflect.Type
	relation *schema.Relationship
	checked  []checkedColumn
}

// broadcastModel marks a model whose rows are in every database.
type broadcastModel struct{ model any }

// Broadcast marks a model for NewRouter.
func Broadcast(model any) any { return broadcastModel{model} }

// parseModel reads what GORM knows of a model. The key is left to the caller.
func parseModel(i int, given any, db *gorm.DB, shards int) (*shardModel, error) {
	m := &shardModel{}
	if b, ok := given.(broadcastModel); ok {
		given, m.broadcast = b.model, true
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(given); err != nil {
		return nil, fmt.Errorf("model %d, %T: %w", i, given, err)
	}
	m.base = stmt.Schema
	m.value = reflect.New(m.base.ModelType).Interface()
	for shard := range shards {
		m.tables = append(m.tables, tableOn(m.base.Table, shard))
	}
	// The names are copied now because GORM writes to the schemas of join tables each time it parses
	// the model.
	for _, relation := range m.base.Relationships.Many2Many {
		m.joins = append(m.joins, joinTable{
			base: relation.JoinTable.Table, of: relation.JoinTable.ModelType, relation: relation,
		})
	}
	return m, nil
}

// tableOn returns the name of a table on a shard. The number has at least two digits, and does not
// depend on how many shards there are, so no table is renamed when the shards are doubled.
func tableOn(base string, shard int) string { return fmt.Sprintf("%s_%02d", base, shard) }

// table returns the name of the model's table on a shard.
func (m *shardModel) table(shard int) string {
	if m.broadcast {
		return m.base.Table
	}
	return m.tables[shard]
}

// slice returns a pointer to an empty slice of the model.
func (m *shardModel) slice() any { return reflect.New(reflect.SliceOf(m.base.ModelType)).Interface() }

// subject returns what a handle for a value is bound to. A row with a key is bound itself, because
// GORM then adds its key as a condition. An empty row only names the model, and goroutines may share
// it as they may share the handle, so the model's own zero value takes its place.
func (m *shardModel) subject(ctx context.Context, value any) any {
	t := reflect.TypeOf(value)
	if t.Kind() != reflect.Pointer || t.Elem() != m.base.ModelType || reflect.ValueOf(value).IsNil() {
		return m.value
	}
	if m.key != nil {
		if _, empty := m.key.ValueOf(ctx, reflect.ValueOf(value).Elem()); empty {
			return m.value
		}
	}
	return value
}

// idOf returns the ID of a row, or 0 if it has none.
func (m *shardModel) idOf(ctx context.Context, row reflect.Value) int64 {
	value, _ := m.key.ValueOf(ctx, row)
	id, _ := fill.IDOf(value)
	return id
}

// placedBy reports whether a column tells the shard of its row.
func (m *shardModel) placedBy(column string) bool {
	return strings.EqualFold(column, m.key.DBName) || m.like != nil && strings.EqualFold(column, m.like.DBName)
}
