package router

import (
	"fmt"
	"reflect"
	"regexp"
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

// keyRules checks the keys in a statement for a shard.
type keyRules struct {
	*shardmap.Topology
	stmt   *gorm.Statement
	model  *shardmap.Model
	shard  int
	writes bool
}

// checkKeys refuses keys of other shards in a statement that is about to run.
func (k keyRules) checkKeys() error {
	model, dest := reflect.ValueOf(k.stmt.Model), reflect.ValueOf(k.stmt.Dest)
	if err := k.checkRows(model); err != nil {
		return err
	}
	// First, Take and Save have one row as both.
	if model.Kind() != reflect.Pointer || dest.Kind() != reflect.Pointer || model.Pointer() != dest.Pointer() {
		if err := k.checkRows(dest); err != nil {
			return err
		}
	}
	where, _ := k.stmt.Clauses["WHERE"].Expression.(clause.Where)
	return k.checkConditions(where.Exprs)
}

// checkRows checks a struct or a slice of structs that have a key already, or the values of a map.
// Elements of a slice that is read into are left over from an earlier read, so they are ignored.
func (k keyRules) checkRows(v reflect.Value) error {
	v, row := reflect.Indirect(v), k.model.Base.ModelType
	switch {
	case !v.IsValid():
		return nil
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		elem := v.Type().Elem()
		if elem != row && elem != reflect.PointerTo(row) {
			return k.checkType(elem)
		}
		for i := 0; k.writes && i < v.Len(); i++ {
			if err := k.checkRows(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case v.Type() != row:
		values, ok := v.Interface().(map[string]any)
		if !ok || !k.writes {
			return k.checkType(v.Type())
		}
		for name, value := range values {
			if err := k.checkID(keyField(k.model, name), value); err != nil {
				return err
			}
		}
		return nil
	}
	if !isEmpty(k.model.Key, v) {
		value, _ := k.model.Key.ValueOf(k.stmt.Context, v)
		if err := k.checkID(k.model.Key, value); err != nil {
			return err
		}
	}
	if !k.writes || k.model.Like == nil {
		return nil
	}
	value, _ := k.model.Like.ValueOf(k.stmt.Context, v)
	return k.checkID(k.model.Like, value)
}

// keyField returns the field of that name or column, if it holds keys of the row's own shard, or nil.
func keyField(m *shardmap.Model, name string) *schema.Field {
	switch {
	case name == clause.PrimaryKey || strings.EqualFold(name, m.Key.DBName) || name == m.Key.Name:
		return m.Key
	case m.Like != nil && (strings.EqualFold(name, m.Like.DBName) || name == m.Like.Name):
		return m.Like
	}
	return nil
}

// isEmpty reports that a field of a row is zero, if that can be seen at once: ValueOf allocates for each.
func isEmpty(f *schema.Field, row reflect.Value) bool {
	index := f.StructField.Index
	return len(index) == 1 && index[0] >= 0 && row.Field(index[0]).IsZero()
}

// checkType refuses rows of another model of the router. A handle that is bound to Order uses the
// table of orders, even for rows of another type.
func (k keyRules) checkType(row reflect.Type) error {
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	if other := k.ByType[row]; other != nil {
		return fmt.Errorf("%w: the handle is bound to %s, not to %s: get a handle for %[3]s from Router.DB",
			errs.ErrNotRouted, k.model.Base.Name, other.Base.Name)
	}
	return nil
}

// checkConditions checks the comparisons of the key, and of the field that it is like, with values. GORM
// makes them from structs, maps, keys and preloads, and applications from clauses. An OR of keys is no
// exception: it would find only the keys of this shard.
func (k keyRules) checkConditions(list []clause.Expression) (err error) {
	if len(list) == 1 {
		// This is a row that is read by its key, which need not wait for the general case.
		if keys, ok := list[0].(clause.IN); ok && len(keys.Values) == 1 && keys.Column == clause.PrimaryColumn {
			return k.checkID(k.model.Key, keys.Values[0])
		}
	}
	eachComparison(list, func(c comparison) {
		if c.table != "" && c.table != clause.CurrentTable && c.table != k.stmt.Table {
			return
		}
		field := keyField(k.model, c.name)
		for _, value := range c.values {
			if err == nil {
				err = k.checkID(field, value)
			}
		}
	})
	return err
}

// comparison is a condition that a column has one of some values.
type comparison struct {
	table, name string
	values      []any
	text        bool // it is written as text
}

// plainText is a text that is nothing but a name, "=" or "IN", and one placeholder. No other text is read: it
// may be any SQL.
var plainText = regexp.MustCompile(`^([\w.]+)(?: *=| +(?i:in)\b)\s*(?:\?|\(\?\))$`)

// eachComparison calls visit for the comparisons in conditions. It leaves out what is negated, because rows
// of other shards meet that as well.
func eachComparison(list []clause.Expression, visit func(comparison)) {
	for _, e := range list {
		switch e := e.(type) {
		case clause.Eq:
			eachOfColumn(e.Column, valuesOf(e.Value), visit)
		case *clause.Eq:
			eachOfColumn(e.Column, valuesOf(e.Value), visit)
		case clause.IN:
			eachOfColumn(e.Column, e.Values, visit)
		case *clause.IN:
			eachOfColumn(e.Column, e.Values, visit)
		case clause.Where:
			eachComparison(e.Exprs, visit)
		case clause.AndConditions:
			eachComparison(e.Exprs, visit)
		case clause.OrConditions:
			eachComparison(e.Exprs, visit)
		case clause.Expr:
			if found := plainText.FindStringSubmatch(e.SQL); found != nil && len(e.Vars) == 1 {
				eachOfColumn(found[1], valuesOf(e.Vars[0]), func(c comparison) {
					c.text = true
					visit(c)
				})
			}
		}
	}
}

// valuesOf lists what a column is compared with. GORM turns an equality with a slice into a list. Bytes may
// be a key.
func valuesOf(value any) []any {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array || v.Type().Elem().Kind() == reflect.Uint8 {
		return []any{value}
	}
	values := make([]any, v.Len())
	for i := range values {
		values[i] = v.Index(i).Interface()
	}
	return values
}

// eachOfColumn splits a comparison of several columns into those of each.
func eachOfColumn(column any, values []any, visit func(comparison)) {
	c := comparison{values: values}
	switch some := column.(type) {
	case string:
		c.name = some
	case clause.Column:
		c.table, c.name = some.Table, some.Name
	case []clause.Column:
		for i := range some {
			var own []any
			for _, tuple := range values {
				if t, ok := tuple.([]any); ok && i < len(t) {
					own = append(own, t[i])
				}
			}
			eachOfColumn(some[i], own, visit)
		}
		return
	default:
		return
	}
	if table, name, qualified := strings.Cut(c.name, "."); qualified {
		c.table, c.name = table, name
	}
	visit(c)
}

// checkID refuses an ID of another shard in the key of a model, or in the field that keys are like. It
// ignores other fields, which are nil, and values that are not IDs.
func (k keyRules) checkID(field *schema.Field, value any) error {
	if field == nil {
		return nil
	}
	id, ok := fill.IDOf(value)
	if !ok || id <= 0 {
		return nil
	}
	home := k.ShardOf(id)
	if home == k.shard {
		return nil
	}
	what := k.model.Base.Name
	if !field.PrimaryKey {
		what += "." + field.Name
	}
	return fmt.Errorf("%w: %s %d is on shard %d, the statement is for shard %d",
		errs.ErrCrossShard, what, id, k.Entry(home).Residue, k.Entry(k.shard).Residue)
}
