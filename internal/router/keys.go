package router

import (
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// The keys in a statement are checked where GORM holds them as values: in rows that are written, in
// structs that name a row, and in conditions. A key of another shard would find nothing, or its row would
// be stored where nobody looks for it. The same goes for the field that a key is like.

// shardFields are the fields of a model that hold keys of the row's own shard.
type shardFields struct{ key, like *schema.Field }

// named returns the field of that name or column, or nil.
func (f shardFields) named(name string) *schema.Field {
	switch {
	case name == clause.PrimaryKey || name == f.key.DBName || name == f.key.Name:
		return f.key
	case f.like != nil && (name == f.like.DBName || name == f.like.Name):
		return f.like
	}
	return nil
}

// keyRules checks keys by a shard map.
type keyRules struct{ *shardmap.Topology }

// checkKeys refuses keys of other shards in a statement that is about to run.
func (t keyRules) checkKeys(stmt *gorm.Statement, shard int, writes bool) error {
	m := t.ByType[stmt.Schema.ModelType]
	if m == nil {
		return nil
	}
	fields := fieldsOf(stmt, m)
	model, dest := reflect.ValueOf(stmt.Model), reflect.ValueOf(stmt.Dest)
	if err := t.checkRows(stmt, fields, model, shard, writes); err != nil {
		return err
	}
	// First, Take and Save have one row as both.
	if model.Kind() != reflect.Pointer || dest.Kind() != reflect.Pointer || model.Pointer() != dest.Pointer() {
		if err := t.checkRows(stmt, fields, dest, shard, writes); err != nil {
			return err
		}
	}
	where, _ := stmt.Clauses["WHERE"].Expression.(clause.Where)
	return t.checkConditions(stmt, fields, where.Exprs, shard)
}

func fieldsOf(stmt *gorm.Statement, m *shardmap.Model) shardFields {
	fields := shardFields{key: stmt.Schema.PrioritizedPrimaryField}
	if m.Like != nil {
		fields.like = stmt.Schema.FieldsByName[m.Like.Name]
	}
	return fields
}

// checkRow refuses a row that is written with a key of another shard.
func (t keyRules) checkRow(stmt *gorm.Statement, m *shardmap.Model, row reflect.Value, shard int) error {
	return t.checkRows(stmt, fieldsOf(stmt, m), row, shard, true)
}

// checkRows checks a struct or a slice of structs that have a key already, or the values of a map.
// Elements of a slice that is read into are left over from an earlier read, so they are ignored.
func (t keyRules) checkRows(
	stmt *gorm.Statement, fields shardFields, v reflect.Value, shard int, writes bool,
) error {
	v = reflect.Indirect(v)
	switch {
	case !v.IsValid():
		return nil
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		elem := v.Type().Elem()
		if elem != stmt.Schema.ModelType && elem != reflect.PointerTo(stmt.Schema.ModelType) {
			return t.checkType(stmt, elem)
		}
		for i := 0; writes && i < v.Len(); i++ {
			if err := t.checkRows(stmt, fields, v.Index(i), shard, writes); err != nil {
				return err
			}
		}
		return nil
	case v.Type() != stmt.Schema.ModelType:
		if values, ok := v.Interface().(map[string]any); ok && writes {
			return t.checkMap(stmt, fields, values, shard)
		}
		return t.checkType(stmt, v.Type())
	}
	if !isEmpty(fields.key, v) {
		if value, zero := fields.key.ValueOf(stmt.Context, v); !zero {
			if err := t.checkKey(stmt.Schema, value, shard); err != nil {
				return err
			}
		}
	}
	if !writes || fields.like == nil {
		return nil
	}
	value, _ := fields.like.ValueOf(stmt.Context, v)
	return t.checkID(stmt.Schema, fields.like, value, shard)
}

// isEmpty reports that a field of a row is zero, if that can be seen at once: ValueOf allocates for each.
func isEmpty(f *schema.Field, row reflect.Value) bool {
	at := f.StructField.Index
	return len(at) == 1 && at[0] >= 0 && row.Field(at[0]).IsZero()
}

// checkMap checks the values that an update sets by a map.
func (t keyRules) checkMap(
	stmt *gorm.Statement, fields shardFields, values map[string]any, shard int,
) error {
	for name, value := range values {
		if err := t.checkValue(stmt, fields, fields.named(name), value, shard); err != nil {
			return err
		}
	}
	return nil
}

// checkValue checks a value of a field, unless the field is nil.
func (t keyRules) checkValue(
	stmt *gorm.Statement, fields shardFields, field *schema.Field, value any, shard int,
) error {
	switch field {
	case nil:
		return nil
	case fields.key:
		return t.checkKey(stmt.Schema, value, shard)
	default:
		return t.checkID(stmt.Schema, field, value, shard)
	}
}

// checkType refuses rows of another model of the router. A handle that is bound to Order uses the
// table of orders, even for rows of another type.
func (t keyRules) checkType(stmt *gorm.Statement, row reflect.Type) error {
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	if other := t.ByType[row]; other != nil {
		return fmt.Errorf("%w: the handle is bound to %s, not to %s: get a handle for %[3]s from Router.DB",
			errs.ErrNotRouted, stmt.Schema.Name, other.Base.Name)
	}
	return nil
}

// checkConditions checks the comparisons of the key, and of the field that it is like, with values. GORM
// makes them from structs, maps, keys and preloads, and applications from clauses. An OR of keys is no
// exception: it would find only the keys of this shard.
func (t keyRules) checkConditions(
	stmt *gorm.Statement, fields shardFields, list []clause.Expression, shard int,
) (err error) {
	if len(list) == 1 {
		// This is a row that is read by its key, which need not wait for the general case.
		if in, ok := list[0].(clause.IN); ok && len(in.Values) == 1 && in.Column == clause.PrimaryColumn {
			return t.checkKey(stmt.Schema, in.Values[0], shard)
		}
	}
	eachComparison(list, func(c comparison) bool {
		if c.table != "" && c.table != clause.CurrentTable && c.table != stmt.Table {
			return true
		}
		field := fields.named(c.name)
		for i := 0; field != nil && i < c.len(); i++ {
			if err = t.checkValue(stmt, fields, field, c.value(i), shard); err != nil {
				return false
			}
		}
		return true
	})
	return err
}

// comparison is a condition that a column has a value, or one of several.
type comparison struct {
	table, name string
	one         any // unless there are several
	several     []any
	list        reflect.Value // several, of another type than []any
	text        bool          // it is written as text
}

func (c *comparison) len() int {
	switch {
	case c.several != nil:
		return len(c.several)
	case c.list.IsValid():
		return c.list.Len()
	}
	return 1
}

func (c *comparison) value(i int) any {
	switch {
	case c.several != nil:
		return c.several[i]
	case c.list.IsValid():
		return c.list.Index(i).Interface()
	}
	return c.one
}

// eachComparison calls yield for the comparisons in conditions until it returns false. It leaves out what
// is negated, because rows of other shards meet that as well.
func eachComparison(list []clause.Expression, yield func(comparison) bool) bool {
	for _, e := range list {
		more := true
		switch e := e.(type) {
		case clause.Eq:
			more = eachOfColumn(e.Column, e.Value, nil, yield)
		case *clause.Eq:
			more = eachOfColumn(e.Column, e.Value, nil, yield)
		case clause.IN:
			more = eachOfColumn(e.Column, nil, nonNil(e.Values), yield)
		case *clause.IN:
			more = eachOfColumn(e.Column, nil, nonNil(e.Values), yield)
		case clause.Where:
			more = eachComparison(e.Exprs, yield)
		case clause.AndConditions:
			more = eachComparison(e.Exprs, yield)
		case clause.OrConditions:
			more = eachComparison(e.Exprs, yield)
		case clause.Expr:
			if name, ok := plainComparison(e.SQL); ok && len(e.Vars) == 1 {
				more = eachOfColumn(name, e.Vars[0], nil, func(c comparison) bool {
					c.text = true
					return yield(c)
				})
			}
		}
		if !more {
			return false
		}
	}
	return true
}

func nonNil(values []any) []any {
	if values == nil {
		return []any{}
	}
	return values
}

// eachOfColumn splits a comparison of several columns into those of each.
func eachOfColumn(column, one any, several []any, yield func(comparison) bool) bool {
	c := comparison{one: one, several: several}
	if several == nil {
		// GORM turns an equality with a slice into a list. Bytes may be a key.
		if v := reflect.ValueOf(one); v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
			if v.Type().Elem().Kind() != reflect.Uint8 {
				c.list = v
			}
		}
	}
	switch of := column.(type) {
	case string:
		c.name = of
	case clause.Column:
		c.table, c.name = of.Table, of.Name
	case []clause.Column:
		for i := range of {
			var values []any
			for _, tuple := range several {
				if t, ok := tuple.([]any); ok && i < len(t) {
					values = append(values, t[i])
				}
			}
			if !eachOfColumn(of[i], nil, nonNil(values), yield) {
				return false
			}
		}
		return true
	default:
		return true
	}
	if table, name, qualified := strings.Cut(c.name, "."); qualified {
		c.table, c.name = table, name
	}
	return yield(c)
}

// plainComparison recognizes a text that is nothing but a name, "=" or "IN", and one placeholder. No other
// text is read: it may be any SQL.
func plainComparison(text string) (column string, ok bool) {
	const longest = 64
	if len(text) > longest || !strings.HasSuffix(text, "?") && !strings.HasSuffix(text, ")") {
		return "", false
	}
	end := 0
	for end < len(text) && (text[end] == '_' || text[end] == '.' || isWordByte(text[end])) {
		end++
	}
	column, rest := text[:end], strings.TrimLeft(text[end:], " ")
	switch {
	case strings.HasPrefix(rest, "="):
		rest = rest[1:]
	case len(rest) > 2 && strings.EqualFold(rest[:2], "IN") && !isWordByte(rest[2]):
		rest = rest[2:]
	default:
		return "", false
	}
	rest = strings.TrimSpace(rest)
	return column, column != "" && (rest == "?" || rest == "(?)")
}

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// checkKey refuses an ID of another shard.
func (t keyRules) checkKey(s *schema.Schema, value any, shard int) error {
	return t.checkID(s, nil, value, shard)
}

// checkID refuses an ID of another shard in a key, or in the field that keys are like. It ignores values that
// are not IDs.
func (t keyRules) checkID(s *schema.Schema, like *schema.Field, value any, shard int) error {
	id, ok := fill.IDOf(value)
	if !ok || id <= 0 {
		return nil
	}
	at := t.ShardOf(id)
	if at == shard {
		return nil
	}
	what := s.Name
	if like != nil {
		what += "." + like.Name
	}
	return fmt.Errorf("%w: %s %d is on shard %d, the statement is for shard %d",
		errs.ErrCrossShard, what, id, t.Entry(at).Residue, t.Entry(shard).Residue)
}
