package fill

import (
	"database/sql/driver"
	"encoding/binary"
	"reflect"
	"strconv"
)

// PluginName is the name under which GORM knows the plugin, and the prefix of its callbacks and settings.
const PluginName = "snowflake"

// binaryLen is the length of an ID in a []byte field.
const binaryLen = 8

// IDOf reads the ID in a value that a field, a map or a condition holds: a whole number, decimal digits,
// eight bytes, a driver.Valuer of any of these, or a pointer to one. It returns false if there is none.
func IDOf(value any) (int64, bool) {
	v, known := behind(value)
	if !known {
		return 0, false
	}
	if id, ok := ValueOf(v).(int64); ok {
		return id, true
	}
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	case v.Kind() == reflect.String:
		return parseInt(v.String())
	}
	if raw, ok := v.Interface().([]byte); ok && len(raw) == binaryLen {
		return int64(binary.BigEndian.Uint64(raw)), true
	}
	return 0, false
}

// behind returns what a value is, or what it leads to if it is a pointer; known is false for NULL.
func behind(value any) (v reflect.Value, known bool) {
	v = reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v, v.IsValid() && v.Kind() != reflect.Pointer
}

// parseInt reads decimal digits. It returns 0 and false for any other text.
func parseInt(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false
	}
	return id, true
}

// ValueOf returns what a driver.Valuer stands for. It is nil for NULL, and for a value that is no
// driver.Valuer.
func ValueOf(v reflect.Value) driver.Value {
	valuer, ok := v.Interface().(driver.Valuer)
	if !ok {
		return nil
	}
	value, err := valuer.Value()
	if err != nil {
		return nil
	}
	return value
}

// IsNull reports whether the value is stored as NULL.
func IsNull(value any) bool {
	if _, known := behind(value); !known {
		return true
	}
	if valuer, ok := value.(driver.Valuer); ok {
		stored, err := valuer.Value()
		return err == nil && stored == nil
	}
	return false
}

// mapsOf lists the maps of a destination, a single one in the memory that one is. GORM knows these four types
// and no others.
func mapsOf(dest any, one *[1]map[string]any) (maps []map[string]any, ok bool) {
	switch dest := dest.(type) {
	case map[string]any:
		one[0] = dest
		return one[:], true
	case *map[string]any:
		if dest != nil {
			one[0] = *dest
			return one[:], true
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

// textIn returns the text that a field or a map holds.
func textIn(value any) (string, bool) {
	v, known := behind(value)
	if !known {
		return "", false
	}
	if text, ok := ValueOf(v).(string); ok {
		return text, true
	}
	return v.String(), v.Kind() == reflect.String
}
