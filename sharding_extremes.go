package snowflakeplugin

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"time"

	"gorm.io/gorm"
)

// extreme asks each shard for its least or greatest value, and takes that of them.
func (r *Router) extreme(ctx context.Context, model any, column, function string, dest any) (bool, error) {
	m, err := r.modelOf(model)
	if err != nil {
		return false, err
	}
	field := m.base.LookUpField(column)
	if field == nil || field.DBName == "" {
		return false, fmt.Errorf("%w: %s has no column %q", gorm.ErrInvalidField, m.base.Name, column)
	}
	into := reflect.ValueOf(dest)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return false, fmt.Errorf("%w: a value in a %T: pass a pointer", gorm.ErrInvalidValue, dest)
	}
	into = into.Elem()
	if _, err := order(into.Interface(), into.Interface()); err != nil {
		return false, err
	}
	values := make([]reflect.Value, r.shards) // by shard, as they come from several at once
	err = r.figures(ctx, m, func(tx *gorm.DB, shard string) *gorm.DB {
		return tx.Select(shard + " AS shard, " + function + "(" + tx.Statement.Quote(field.DBName) + ") AS n")
	}, func(rows *sql.Rows) error {
		var shard int
		value := reflect.New(reflect.PointerTo(into.Type())) // nil for NULL
		if err := rows.Scan(&shard, value.Interface()); err != nil {
			return err
		}
		values[shard] = value.Elem()
		return nil
	})
	if err != nil {
		return false, err
	}
	found := reflect.Value{}
	for _, value := range values {
		if !value.IsValid() || value.IsNil() {
			continue
		}
		if !found.IsValid() {
			found = value.Elem()
			continue
		}
		sign, err := order(value.Elem().Interface(), found.Interface())
		if err != nil {
			return false, err
		}
		if function == "min" && sign < 0 || function == "max" && sign > 0 {
			found = value.Elem()
		}
	}
	if found.IsValid() {
		into.Set(found)
	}
	return found.IsValid(), nil
}

// order compares two values of one type.
func order(a, b any) (int, error) {
	switch a := a.(type) {
	case time.Time:
		return a.Compare(b.(time.Time)), nil //nolint:forcetypeassert // of one type
	case []byte:
		return bytes.Compare(a, b.([]byte)), nil //nolint:forcetypeassert // of one type
	}
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case v.CanInt():
		return cmp.Compare(v.Int(), w.Int()), nil
	case v.CanUint():
		return cmp.Compare(v.Uint(), w.Uint()), nil
	case v.CanFloat():
		return cmp.Compare(v.Float(), w.Float()), nil
	case v.Kind() == reflect.String:
		return cmp.Compare(v.String(), w.String()), nil
	}
	return 0, fmt.Errorf("%w: values of %T have no order", gorm.ErrInvalidValue, a)
}
