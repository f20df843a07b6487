package snowflakeplugin

import (
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// What a statement on one shard says of keys is checked as far as GORM holds it as values: rows that
// are written, structs that say which row is meant, and conditions on the key. A key of another
// shard there would find nothing, or worse, be stored where nobody looks for it.

// checkKeys refuses keys of other shards in a statement that is about to run.
func (r *routing) checkKeys(stmt *gorm.Statement, shard int, writes bool) error {
	key := stmt.Schema.PrioritizedPrimaryField
	if r.byType[stmt.Schema.ModelType] == nil || key == nil {
		return nil
	}
	for _, subject := range []any{stmt.Model, stmt.Dest} {
		if err := r.checkRows(stmt, key, reflect.ValueOf(subject), shard, writes); err != nil {
			return err
		}
	}
	where, _ := stmt.Clauses["WHERE"].Expression.(clause.Where)
	for _, condition := range where.Exprs {
		if err := r.checkCondition(stmt, key, condition, shard); err != nil {
			return err
		}
	}
	return nil
}

// checkRows looks at structs, or slices of them, that have a key already. What is in a slice that is
// read into is left from another read, and means nothing.
func (r *routing) checkRows(
	stmt *gorm.Statement, key *schema.Field, v reflect.Value, shard int, writes bool,
) error {
	v = reflect.Indirect(v)
	switch {
	case !v.IsValid():
		return nil
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		elem := v.Type().Elem()
		if elem != stmt.Schema.ModelType && elem != reflect.PointerTo(stmt.Schema.ModelType) {
			return r.checkType(stmt, elem)
		}
		for i := 0; writes && i < v.Len(); i++ {
			if err := r.checkRows(stmt, key, v.Index(i), shard, writes); err != nil {
				return err
			}
		}
		return nil
	case v.Type() != stmt.Schema.ModelType:
		return r.checkType(stmt, v.Type())
	}
	value, zero := key.ValueOf(stmt.Context, v)
	if zero {
		return nil
	}
	return r.checkKey(stmt.Schema, value, shard)
}

// checkType refuses rows of another model of the router: a handle that is bound to Order reads and
// writes the table of orders, whatever it is given.
func (r *routing) checkType(stmt *gorm.Statement, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if other := r.byType[t]; other != nil {
		return fmt.Errorf("%w: the handle is bound to %s, not to %s: get one for that from Router.DB",
			ErrNotRouted, stmt.Schema.Name, other.base.Name)
	}
	return nil
}

// checkCondition looks at "key = value" and "key IN (values)", as First(&row, id) and Preload make
// them.
func (r *routing) checkCondition(
	stmt *gorm.Statement, key *schema.Field, condition clause.Expression, shard int,
) error {
	var column any
	var values []any
	switch c := condition.(type) {
	case clause.Eq:
		column, values = c.Column, []any{c.Value}
	case clause.IN:
		column, values = c.Column, c.Values
	}
	if !isKey(column, key, stmt.Table) {
		return nil
	}
	for _, value := range values {
		if err := r.checkKey(stmt.Schema, value, shard); err != nil {
			return err
		}
	}
	return nil
}

// isKey reports whether a condition is about the primary key of the statement's table.
func isKey(column any, key *schema.Field, table string) bool {
	switch c := column.(type) {
	case clause.Column:
		mine := c.Table == "" || c.Table == clause.CurrentTable || c.Table == table
		return mine && (c.Name == clause.PrimaryKey || c.Name == key.DBName)
	case string:
		return c == clause.PrimaryKey || c == key.DBName
	}
	return false
}

// checkKey refuses an ID of another shard. What is no ID is none of its business.
func (r *routing) checkKey(s *schema.Schema, value any, shard int) error {
	id, ok := likeKey(value)
	if !ok || id <= 0 {
		return nil
	}
	if at := r.shardOf(id); at != shard {
		return fmt.Errorf("%w: %s %d is on shard %d, the statement is for shard %d",
			ErrCrossShard, s.Name, id, at, shard)
	}
	return nil
}

// checkShard is the callback that looks at all rows once more, when they have their keys and hooks
// have run, right before they are inserted.
func checkShard(db *gorm.DB) {
	fr := frameOf(db.Statement)
	if db.Error != nil || fr == nil || fr.rows == nil || fr.plan.shard == nil {
		return
	}
	on := fr.plan.shard
	for c, column := range fr.plan.columns {
		if !column.field.PrimaryKey {
			continue
		}
		for i := range fr.rows.count() {
			id, ok := fr.rows.get(i, c)
			if !ok {
				continue
			}
			err := on.of.checkKey(fr.plan.schema, id, on.number)
			if err == nil && column.like != nil {
				like, _ := fr.rows.value(fr.Context, i, column.like)
				err = on.of.checkKey(fr.plan.schema, like, on.number)
				if key, ok := likeKey(like); (!ok || key <= 0) && slices.Contains(fr.ids, id) {
					err = fr.noID(1<<c, fr.noParent(i, column, like))
				}
			}
			if err != nil {
				_ = db.AddError(err)
				return
			}
		}
	}
}
