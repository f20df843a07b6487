package fill

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"gorm.io/gorm/schema"
)

// column is a tagged field and the way to read and write an ID in it.
type column struct {
	field   *schema.Field
	kind    kind
	pointer bool         // the field is a pointer to what kind says
	value   reflect.Type // the type of the field, without the pointer
	direct  int          // index of the field in the model, -1 if it is embedded deeper
	plain   bool         // an integer field of the model itself
	text    bool         // of kindScan: its Value is text

	like *schema.Field // the field whose shard the IDs share; nil if they need not share one
	from *from         // the named source of the numbers; nil for the plugin's own
}

// kind is how an ID is kept in a Go value.
type kind uint8

const (
	kindInt    kind = iota // ID, int64, int and types made of them
	kindUint               // uint64, uint
	kindString             // decimal digits
	kindBytes              // []byte: eight bytes, big-endian
	kindScan               // a type that takes an int64 through Scan and gives it back through Value
)

// probe is an ID that no smaller kind of number can hold. It is odd and has 63 bits, so a float64,
// whose mantissa has 53, cannot keep it.
const probe int64 = 7_000_000_000_000_000_001

// smallProbe fits the smallest integers, which may hold the numbers of a named source.
const smallProbe int64 = 101

// newColumn decides how the field holds an ID of up to so many decimal digits, or says why it cannot. A
// field for the numbers of a named source may be smaller.
func newColumn(field *schema.Field, digits int, from *from) (*column, error) {
	if field.Serializer != nil {
		return nil, errors.New("a field with a serializer cannot hold an ID: remove the serializer or the tag")
	}
	c := &column{field: field, value: field.FieldType, direct: -1, from: from}
	if index := field.StructField.Index; len(index) == 1 && index[0] >= 0 {
		c.direct = index[0]
	}
	if c.value.Kind() == reflect.Pointer {
		c.pointer, c.value = true, c.value.Elem()
	}
	wide := c.value.Size() == binaryLen || from != nil
	tried := probe
	if from != nil {
		tried = smallProbe
	}
	switch t := c.value; {
	case wide && reflect.Int <= t.Kind() && t.Kind() <= reflect.Int64:
		c.kind = kindInt
	case wide && reflect.Uint <= t.Kind() && t.Kind() <= reflect.Uint64:
		c.kind = kindUint
	case t.Kind() == reflect.String:
		c.kind = kindString
	case t == reflect.TypeFor[[]byte]():
		c.kind = kindBytes
	default:
		kept, text := keeps(t, tried)
		if kept {
			c.kind, c.text = kindScan, text
			break
		}
		return nil, fmt.Errorf("type %v cannot hold a 64-bit ID: use snowflakeplugin.ID, int64, "+
			"uint64, string or []byte, or a pointer to or sql.Null of one of the first four",
			field.FieldType)
	}
	c.plain = c.kind == kindInt && !c.pointer && c.direct >= 0 && from == nil
	if from != nil {
		return c, nil // each number is looked at
	}
	return c, c.checkSize(digits)
}

// checkSize refuses a declared size that is too small.
func (c *column) checkSize(digits int) error {
	size, need := c.field.Size, 0
	switch c.kind {
	case kindInt, kindUint:
		need = 64
	case kindString:
		need = digits
	case kindBytes:
		need = binaryLen
	}
	if size > 0 && size < need {
		return fmt.Errorf("size:%d is too small for an ID of this layout: it needs at least %d", size, need)
	}
	return nil
}

// keeps reports whether values of a struct type give back the number that was scanned into
// them, as a number or as its decimal digits. It tries the type, because the names of types say too
// little: sql.NullFloat64 takes an int64 as well, and loses digits.
func keeps(t reflect.Type, number int64) (keeps, text bool) {
	defer func() {
		if recover() != nil { // the Scan or Value of a foreign type
			keeps = false
		}
	}()
	if t.Kind() != reflect.Struct {
		return false, false
	}
	pointer := reflect.New(t)
	scanner, ok := pointer.Interface().(sql.Scanner)
	if !ok || scanner.Scan(number) != nil {
		return false, false
	}
	switch value := ValueOf(pointer.Elem()).(type) {
	case int64:
		return value == number, false
	case string:
		return value == strconv.FormatInt(number, 10), true
	}
	return false, false
}

// get reads the ID in v, the value of the field. set tells whether somebody has set the field, to an
// ID or to something else. A pointer to zero counts as set, and so does a text that is no number.
func (c *column) get(v reflect.Value) (id int64, set bool) {
	if c.pointer {
		if v.IsNil() {
			return 0, false
		}
		id, _ = c.read(v.Elem())
		return id, true
	}
	return c.read(v)
}

func (c *column) read(v reflect.Value) (id int64, set bool) {
	switch c.kind {
	case kindInt:
		id = v.Int()
		return id, id != 0
	case kindUint:
		id = int64(v.Uint())
		return id, id != 0
	case kindString:
		text := v.String()
		id, _ = parseInt(text)
		return id, text != ""
	case kindBytes:
		raw := v.Bytes()
		if len(raw) == binaryLen {
			id = int64(binary.BigEndian.Uint64(raw))
		}
		return id, len(raw) > 0
	default:
		if v.IsZero() {
			return 0, false
		}
		switch value := ValueOf(v).(type) {
		case nil:
			return 0, false
		case int64:
			id = value
		case string:
			id, _ = parseInt(value)
		}
		return id, true
	}
}

// isVacant reports whether the field waits for an ID in a row.
func (c *column) isVacant(row reflect.Value) bool {
	if c.plain { // the common case, which takes a third of the time of the other
		return row.Field(c.direct).Int() == 0
	}
	cell, ok := c.in(row, false)
	if !ok {
		// The struct that would hold the field is a nil pointer. Allocating it would turn the NULLs
		// of its other columns into zeros, which only a key is worth.
		return c.field.PrimaryKey
	}
	_, set := c.get(cell)
	return !set
}

// put writes an ID into v, the value of the field.
func (c *column) put(v reflect.Value, id int64) error {
	if c.pointer {
		fresh := reflect.New(c.value)
		if err := c.write(fresh.Elem(), id); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	}
	return c.write(v, id)
}

func (c *column) write(v reflect.Value, id int64) error {
	switch c.kind {
	case kindInt:
		if v.OverflowInt(id) {
			return c.tooLarge(id)
		}
		v.SetInt(id)
	case kindUint:
		if v.OverflowUint(uint64(id)) {
			return c.tooLarge(id)
		}
		v.SetUint(uint64(id))
	case kindString:
		v.SetString(c.textOf(id))
	case kindBytes:
		v.SetBytes(binary.BigEndian.AppendUint64(nil, uint64(id)))
	default:
		if c.text {
			return v.Addr().Interface().(sql.Scanner).Scan(c.textOf(id))
		}
		return v.Addr().Interface().(sql.Scanner).Scan(id)
	}
	return nil
}

// in finds the field in a row. Where an embedded struct on the way is a nil pointer it returns
// false, or allocates it if grow is set.
func (c *column) in(row reflect.Value, grow bool) (reflect.Value, bool) {
	if c.direct >= 0 {
		return row.Field(c.direct), true
	}
	for _, index := range c.field.StructField.Index {
		if index >= 0 {
			row = row.Field(index)
			continue
		}
		row = row.Field(-index - 1) // how GORM notes an embedded pointer
		if row.IsNil() {
			if !grow {
				return reflect.Value{}, false
			}
			row.Set(reflect.New(row.Type().Elem()))
		}
		row = row.Elem()
	}
	return row, true
}
