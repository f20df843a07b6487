package fill

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"gorm.io/gorm/schema"
)

// NumbersInJSON returns the fields of a plan with the plugin's own IDs that encoding/json writes as numbers.
func NumbersInJSON(p *Plan) (fields []*schema.Field) {
	for _, c := range p.columns {
		if c.source == nil && isNumberInJSON(c) {
			fields = append(fields, c.field)
		}
	}
	return fields
}

// isNumberInJSON finds out by a trial, with the tag of the field, how its type writes an ID.
func isNumberInJSON(c *column) (is bool) {
	defer func() {
		if recover() != nil { // in a method of a foreign type
			is = false
		}
	}()
	alone := reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "Field", Type: c.field.FieldType, Tag: c.field.StructField.Tag},
	})).Elem()
	if c.put(alone.Field(0), probe) != nil {
		return false
	}
	text, err := json.Marshal(alone.Interface())
	digits := strconv.FormatInt(probe, 10)
	return err == nil && strings.Contains(string(text), digits) && !strings.Contains(string(text), `"`+digits)
}
