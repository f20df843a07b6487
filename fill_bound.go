package snowflakeplugin

import (
	"fmt"
	"reflect"
)

// assignBound gives IDs to the empty cells of those columns whose IDs have to lie on the shard of
// another row, or on the one that the statement is routed to, and returns these columns. Each ID
// is a reservation of its own, as the numbers in between belong to other shards.
func (f *filler) assignBound(fr *frame, columns columnMask) (bound columnMask, err error) {
	for c, column := range fr.plan.columns {
		if !columns.has(c) || column.like == nil && !fr.plan.routes(column) {
			continue
		}
		bound |= 1 << c
		before := len(fr.ids)
		for i := range fr.rows.count() {
			if !fr.rows.isVacant(i, c) {
				continue
			}
			id, err := f.nextBound(fr, i, column)
			if err != nil {
				return bound, fr.noID(1<<c, err)
			}
			fr.ids = append(fr.ids, id)
		}
		if err := fr.put(1<<c, fr.ids[before:]); err != nil {
			return bound, err
		}
	}
	return bound, nil
}

// nextBound returns a new ID for a row.
func (f *filler) nextBound(fr *frame, i int, column *column) (int64, error) {
	if column.like == nil {
		return f.numbers.nextOn(fr.Context, fr.plan.shard)
	}
	value, known := fr.rows.value(fr.Context, i, column.like)
	key, ok := likeKey(value)
	switch vacant := !known || !ok || key <= 0; {
	case vacant && fr.plan.shard != nil:
		return f.numbers.nextOn(fr.Context, fr.plan.shard) // its parent may be created with it; see checkShard
	case vacant:
		return 0, fr.noParent(i, column, value)
	}
	return f.numbers.nextLike(fr.Context, key)
}

// noParent is the error of a row that refers to no other, where it has to lie beside one.
func (f *frame) noParent(i int, column *column, value any) error {
	return fmt.Errorf("%w: %s.%s of row %d is %v: it has to hold the ID of the row to be beside",
		ErrNoParent, f.plan.schema.Name, column.like.Name, i, value)
}

// likeKey reads the ID in a field that others are keyed like.
func likeKey(value any) (int64, bool) {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer {
		return 0, false // NULL
	}
	if id, ok := valueOf(v).(int64); ok {
		return id, true
	}
	return anyID(v.Interface())
}
