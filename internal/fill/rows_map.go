package fill

import (
	"context"
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// mapRows is a map[string]any or a slice of them. GORM takes the name of the column or the name of
// the field as a key.
type mapRows struct {
	plan *Plan
	maps []map[string]any
	was  map[mapCell]mapValue
}

// mapCell names a cell. mapValue is what the cell held before the plugin wrote to it.
type mapCell struct{ row, column int }

type mapValue struct {
	value   any
	present bool
}

// newMapRows returns nil for a destination that GORM does not take for maps, and an error for
// maps that cannot take an ID.
func newMapRows(p *Plan, dest any) (*mapRows, error) {
	maps, ok := mapsOf(dest)
	if !ok {
		return nil, nil
	}
	r := &mapRows{plan: p, maps: maps, was: map[mapCell]mapValue{}}
	return r, r.check()
}

// mapsOf lists the maps of a destination. GORM knows these four types and no others.
func mapsOf(dest any) (maps []map[string]any, ok bool) {
	switch dest := dest.(type) {
	case map[string]any:
		return []map[string]any{dest}, true
	case *map[string]any:
		if dest != nil {
			return []map[string]any{*dest}, true
		}
	case []map[string]any:
		return dest, true
	case *[]map[string]any:
		if dest != nil {
			return *dest, true
		}
	}
	return nil, false
}

// check refuses a nil map, which cannot be written to, and a map that names a tagged column twice,
// because chance would decide which of the two values is stored.
func (r *mapRows) check() error {
	for i, m := range r.maps {
		if m == nil {
			return fmt.Errorf("snowflakeplugin: create %s from map %d: the map is nil: %w",
				r.plan.schema.Name, i, gorm.ErrInvalidData)
		}
		for _, column := range r.plan.columns {
			keys := 0
			for key := range m {
				if r.plan.schema.LookUpField(key) == column.field {
					keys++
				}
			}
			if keys > 1 {
				return fmt.Errorf("snowflakeplugin: create %s from map %d: %d keys name the column %s: %w",
					r.plan.schema.Name, i, keys, column.field.DBName, gorm.ErrInvalidData)
			}
		}
	}
	return nil
}

// key returns the key under which the map has the field, or would get it.
func (r *mapRows) key(i int, field *schema.Field) (key string, present bool) {
	if _, present = r.maps[i][field.DBName]; present {
		return field.DBName, true
	}
	for key := range r.maps[i] {
		if r.plan.schema.LookUpField(key) == field {
			return key, true
		}
	}
	return field.DBName, false
}

func (r *mapRows) count() int { return len(r.maps) }

func (r *mapRows) identity(i int) uintptr { return reflect.ValueOf(r.maps[i]).Pointer() }

func (r *mapRows) part(rows []int) destination {
	maps := make([]map[string]any, 0, len(rows))
	for _, i := range rows {
		maps = append(maps, r.maps[i])
	}
	return destination{&maps, reflect.ValueOf(&maps).Elem()}
}

func (r *mapRows) vacant(c int) int {
	empty := 0
	for i := range r.maps {
		if r.isVacant(i, c) {
			empty++
		}
	}
	return empty
}

func (r *mapRows) place(c int, ids []int64) ([]int64, error) {
	for i := 0; len(ids) > 0 && i < len(r.maps); i++ {
		if !r.isVacant(i, c) {
			continue
		}
		if err := r.put(i, c, ids[0]); err != nil {
			return nil, err
		}
		ids = ids[1:]
	}
	return ids, nil
}

func (r *mapRows) isVacant(i, c int) bool {
	key, present := r.key(i, r.plan.columns[c].field)
	if !present {
		return true
	}
	v := r.maps[i][key]
	return v == nil || reflect.ValueOf(v).IsZero()
}

func (r *mapRows) get(i, c int) (int64, bool) {
	key, present := r.key(i, r.plan.columns[c].field)
	if !present {
		return 0, false
	}
	if r.plan.columns[c].from != nil {
		return numberOf(r.maps[i][key])
	}
	return IDOf(r.maps[i][key])
}

func (r *mapRows) put(i, c int, id int64) error {
	column := r.plan.columns[c]
	key := r.remember(i, c)
	switch {
	case column.kind == kindScan && column.text:
		r.maps[i][key] = column.textOf(id)
		return nil
	case column.kind == kindScan && column.from != nil:
		// The column's own type tells whether the number fits.
		if err := column.write(reflect.New(column.value).Elem(), id); err != nil {
			return err
		}
		r.maps[i][key] = id
		return nil
	case column.kind == kindScan:
		r.maps[i][key] = r.plan.wrap(id) // a value that the column takes; a map needs no wrapper
		return nil
	}
	v := reflect.New(column.value).Elem()
	if err := column.write(v, id); err != nil {
		return err
	}
	r.maps[i][key] = v.Interface()
	return nil
}

// remember notes what a cell holds, the first time, and returns its key.
func (r *mapRows) remember(i, c int) (key string) {
	key, present := r.key(i, r.plan.columns[c].field)
	cell := mapCell{i, c}
	if _, known := r.was[cell]; !known {
		r.was[cell] = mapValue{r.maps[i][key], present}
	}
	return key
}

func (r *mapRows) restore(i, c int) {
	was, known := r.was[mapCell{i, c}]
	if !known {
		return
	}
	key, _ := r.key(i, r.plan.columns[c].field)
	if was.present {
		r.maps[i][key] = was.value
	} else {
		delete(r.maps[i], key)
	}
}

func (r *mapRows) load(i, c int, v reflect.Value) {
	key := r.remember(i, c)
	switch {
	case !v.IsValid():
		r.maps[i][key] = nil
	case r.plan.columns[c].kind == kindScan:
		value := ValueOf(v)
		if id, ok := value.(int64); ok {
			value = r.plan.wrap(id)
		}
		r.maps[i][key] = value
	default:
		r.maps[i][key] = v.Interface()
	}
}

func (r *mapRows) value(_ context.Context, i int, field *schema.Field) (any, bool) {
	key, present := r.key(i, field)
	if !present {
		return nil, false
	}
	v := r.maps[i][key]
	if _, isSQL := v.(clause.Expression); isSQL {
		return nil, false // only the database knows its value
	}
	return v, !IsNull(v)
}
