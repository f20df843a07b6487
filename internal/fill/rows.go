package fill

import (
	"context"
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// rows is the destination of a create statement, whatever its shape. It gives access to the cells of
// the tagged columns of every row. A column is named by its index in the plan.
type rows interface {
	count() int
	// identity tells whether two rows are the same memory. It is 0 for a row that is no other.
	identity(row int) uintptr
	// part returns a destination of some of the rows.
	part(rows []int) destination
	// isVacant reports whether a cell waits for an ID.
	isVacant(row, column int) bool
	// write puts IDs into those cells, in the order of the rows, and returns the IDs left over.
	write(column int, ids []int64) (rest []int64, err error)
	// get returns the ID in a cell; ok is false if there is none.
	get(row, column int) (id int64, ok bool)
	// put writes an ID into a cell.
	put(row, column int, id int64) error
	// restore makes the cell what it was before an ID was put into it.
	restore(row, column int)
	// load writes what a query returned into a cell. The value has the column's type, without its
	// pointer, and the zero Value stands for NULL.
	load(row, column int, v reflect.Value)
	// value returns what the row holds for any field of the model. known is false if the value is
	// NULL, or if the database decides on it.
	value(ctx context.Context, row int, field *schema.Field) (v any, known bool)
}

// destination is what a statement creates.
type destination struct {
	dest  any
	value reflect.Value
}

// structRows is a struct, or a slice or an array of structs or of pointers to structs.
type structRows struct {
	plan     *Plan
	rv       reflect.Value
	single   bool
	pointers bool
}

// pointAt points r at a destination. It returns false for a destination that is not made of the model's
// own structs.
func (r *structRows) pointAt(p *Plan, v reflect.Value) bool {
	elem := v.Type()
	r.plan, r.rv, r.single, r.pointers = p, v, false, false
	switch v.Kind() {
	case reflect.Struct:
		r.single = true
	case reflect.Slice, reflect.Array:
		elem = elem.Elem()
		if elem.Kind() == reflect.Pointer {
			r.pointers = true
			elem = elem.Elem()
		}
	default:
		return false
	}
	return elem == p.schema.ModelType
}

func (r *structRows) count() int {
	if r.single {
		return 1
	}
	return r.rv.Len()
}

// isSlice reports whether the destination is a slice or an array of structs.
func (r *structRows) isSlice() bool { return r.plan != nil && !r.single }

// row returns a struct, or false for a nil pointer, which GORM reports as an error.
func (r *structRows) row(i int) (reflect.Value, bool) {
	if r.single {
		return r.rv, true
	}
	row := r.rv.Index(i)
	if r.pointers {
		if row.IsNil() {
			return reflect.Value{}, false
		}
		row = row.Elem()
	}
	return row, true
}

func (r *structRows) identity(i int) uintptr {
	if !r.pointers {
		return 0
	}
	return r.rv.Index(i).Pointer()
}

func (r *structRows) part(rows []int) destination {
	if r.single {
		return destination{r.rv.Addr().Interface(), r.rv}
	}
	elem := r.rv.Type().Elem()
	if !r.pointers {
		elem = reflect.PointerTo(elem)
	}
	slice := reflect.New(reflect.SliceOf(elem))
	for _, i := range rows {
		row := r.rv.Index(i)
		if !r.pointers {
			row = row.Addr()
		}
		slice.Elem().Set(reflect.Append(slice.Elem(), row))
	}
	return destination{slice.Interface(), slice.Elem()}
}

func (r *structRows) isVacant(i, c int) bool {
	row, ok := r.row(i)
	return ok && r.plan.columns[c].isVacant(row)
}

func (r *structRows) write(c int, ids []int64) ([]int64, error) {
	column := r.plan.columns[c]
	if r.isTable(column) {
		for i := 0; len(ids) > 0 && i < r.rv.Len(); i++ {
			if cell := r.rv.Index(i).Field(column.direct); cell.Int() == 0 {
				cell.SetInt(ids[0])
				ids = ids[1:]
			}
		}
		return ids, nil
	}
	for i := 0; len(ids) > 0 && i < r.count(); i++ {
		row, ok := r.row(i)
		if !ok || !column.isVacant(row) {
			continue
		}
		cell, _ := column.locate(row, true)
		if err := column.put(cell, ids[0]); err != nil {
			return nil, err
		}
		ids = ids[1:]
	}
	return ids, nil
}

// isTable reports whether the column is an integer field in a slice of structs. Large batches have
// this shape, and short loops for it halve the plugin's share of a row.
func (r *structRows) isTable(column *column) bool {
	return column.plain && !r.single && !r.pointers
}

func (r *structRows) get(i, c int) (int64, bool) {
	row, ok := r.row(i)
	if !ok {
		return 0, false
	}
	cell, ok := r.plan.columns[c].locate(row, false)
	if !ok {
		return 0, false
	}
	return r.plan.columns[c].get(cell)
}

func (r *structRows) put(i, c int, id int64) error {
	row, ok := r.row(i)
	if !ok {
		return nil
	}
	cell, _ := r.plan.columns[c].locate(row, true)
	return r.plan.columns[c].put(cell, id)
}

func (r *structRows) restore(i, c int) {
	if row, ok := r.row(i); ok {
		if cell, ok := r.plan.columns[c].locate(row, false); ok {
			cell.SetZero()
		}
	}
}

func (r *structRows) load(i, c int, v reflect.Value) {
	row, ok := r.row(i)
	if !ok {
		return
	}
	cell, _ := r.plan.columns[c].locate(row, true)
	switch {
	case !v.IsValid():
		cell.SetZero()
	case r.plan.columns[c].pointer:
		fresh := reflect.New(v.Type())
		fresh.Elem().Set(v)
		cell.Set(fresh)
	default:
		cell.Set(v)
	}
}

func (r *structRows) value(ctx context.Context, i int, field *schema.Field) (any, bool) {
	row, ok := r.row(i)
	if !ok {
		return nil, false
	}
	v, zero := field.ValueOf(ctx, row)
	if zero && field.HasDefaultValue && field.DefaultValueInterface == nil {
		return nil, false
	}
	return v, !IsNull(v)
}

// mapRows is a map[string]any or a slice of them. GORM takes the name of the column or the name of
// the field as a key.
type mapRows struct {
	plan *Plan
	maps []map[string]any
	was  []mapValue // one for each cell, row by row; nil until the first is written to

	// Most creates from maps have one row with one column to fill, which then need no other memory.
	oneMap  [1]map[string]any
	oneCell [1]mapValue
}

// mapValue is what a cell held before the plugin wrote to it. It is known once that has happened.
type mapValue struct {
	value          any
	known, present bool
}

// pointAt points r at a destination. It returns false for one that GORM does not take for maps. It refuses a
// nil map, which cannot be written to, and a map that names a tagged column twice, because chance would
// decide which of the two values is stored.
func (r *mapRows) pointAt(p *Plan, dest any) (bool, error) {
	maps, ok := mapsOf(dest, &r.oneMap)
	if !ok {
		return false, nil
	}
	r.plan, r.maps = p, maps
	for i, m := range maps {
		if m == nil {
			return true, fmt.Errorf("snowflakeplugin: create %s from map %d: the map is nil: %w",
				p.schema.Name, i, gorm.ErrInvalidData)
		}
		for _, column := range p.columns {
			keys := 0
			for key := range m {
				if p.schema.LookUpField(key) == column.field {
					keys++
				}
			}
			if keys > 1 {
				return true, fmt.Errorf("snowflakeplugin: create %s from map %d: %d keys name the column %s: %w",
					p.schema.Name, i, keys, column.field.DBName, gorm.ErrInvalidData)
			}
		}
	}
	return true, nil
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

func (r *mapRows) count() int             { return len(r.maps) }
func (r *mapRows) identity(i int) uintptr { return reflect.ValueOf(r.maps[i]).Pointer() }

func (r *mapRows) part(rows []int) destination {
	maps := make([]map[string]any, 0, len(rows))
	for _, i := range rows {
		maps = append(maps, r.maps[i])
	}
	return destination{&maps, reflect.ValueOf(&maps).Elem()}
}

func (r *mapRows) write(c int, ids []int64) ([]int64, error) {
	for i := 0; len(ids) > 0 && i < len(r.maps); i++ {
		key, present := r.key(i, r.plan.columns[c].field)
		if present && !isEmpty(r.maps[i][key]) {
			continue
		}
		if err := r.putAt(i, c, key, present, ids[0]); err != nil {
			return nil, err
		}
		ids = ids[1:]
	}
	return ids, nil
}

func (r *mapRows) isVacant(i, c int) bool {
	key, present := r.key(i, r.plan.columns[c].field)
	return !present || isEmpty(r.maps[i][key])
}

// isEmpty reports whether a value waits for an ID.
func isEmpty(v any) bool { return v == nil || reflect.ValueOf(v).IsZero() }

func (r *mapRows) get(i, c int) (int64, bool) {
	key, present := r.key(i, r.plan.columns[c].field)
	if !present {
		return 0, false
	}
	return IDOf(r.maps[i][key])
}

func (r *mapRows) put(i, c int, id int64) error {
	key, present := r.key(i, r.plan.columns[c].field)
	return r.putAt(i, c, key, present, id)
}

// putAt writes an ID under the key at which the map has the column, or gets it.
func (r *mapRows) putAt(i, c int, key string, present bool, id int64) error {
	column := r.plan.columns[c]
	r.remember(i, c, key, present)
	switch {
	case column.kind == kindScan && column.text:
		r.maps[i][key] = column.textOf(id)
		return nil
	case column.kind == kindScan && column.source != nil:
		// The column's own type tells whether the number fits.
		if err := column.write(reflect.New(column.value).Elem(), id); err != nil {
			return err
		}
		r.maps[i][key] = id
		return nil
	case column.kind == kindScan:
		r.maps[i][key] = r.plan.cache.wrap(id) // a value that the column takes; a map needs no wrapper
		return nil
	}
	if wrapped := r.plan.cache.wrap(id); reflect.TypeOf(wrapped) == column.value {
		r.maps[i][key] = wrapped
		return nil
	}
	v := reflect.New(column.value).Elem()
	if err := column.write(v, id); err != nil {
		return err
	}
	r.maps[i][key] = v.Interface()
	return nil
}

// cell returns the place of what a cell held, and makes all of them the first time.
func (r *mapRows) cell(i, c int) *mapValue {
	if r.was == nil {
		r.was = r.oneCell[:]
		if n := len(r.maps) * len(r.plan.columns); n > 1 {
			r.was = make([]mapValue, n)
		}
	}
	return &r.was[i*len(r.plan.columns)+c]
}

// remember notes what a cell holds, the first time.
func (r *mapRows) remember(i, c int, key string, present bool) {
	if was := r.cell(i, c); !was.known {
		*was = mapValue{value: r.maps[i][key], known: true, present: present}
	}
}

func (r *mapRows) restore(i, c int) {
	was := r.cell(i, c)
	if !was.known {
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
	key, present := r.key(i, r.plan.columns[c].field)
	r.remember(i, c, key, present)
	switch {
	case !v.IsValid():
		r.maps[i][key] = nil
	case r.plan.columns[c].kind == kindScan:
		value := ValueOf(v)
		if id, ok := value.(int64); ok {
			value = r.plan.cache.wrap(id)
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
