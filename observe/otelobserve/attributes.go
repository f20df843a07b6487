package otelobserve

import (
	"reflect"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// attributes is the plugin of GORM that [Attributes] returns.
type attributes struct{}

// Attributes returns a plugin of GORM that adds the IDs of a create to the span of the statement's
// context. It begins no span. Spans that are not recorded cost one look at the context. It may be used
// before or after the tracing plugin and the snowflake plugin.
func Attributes() gorm.Plugin { return attributes{} }

func (attributes) Name() string { return "snowflake:attributes" }

func (attributes) Initialize(db *gorm.DB) error {
	// The IDs are there after the fill. Here the tracing plugin's span has begun and has not ended.
	return db.Callback().Create().After("gorm:create").Before("otel:after:create").
		Register("snowflake:attributes", annotate)
}

func annotate(tx *gorm.DB) {
	statement := tx.Statement
	if statement.Schema == nil || statement.Context == nil {
		return
	}
	span := trace.SpanFromContext(statement.Context)
	if !span.IsRecording() {
		return
	}
	field := tagged(statement.Schema)
	if field == nil {
		return
	}
	found := []attribute.KeyValue{attribute.String("snowflake.model", statement.Schema.Name)}
	rows := statement.ReflectValue
	switch rows.Kind() {
	case reflect.Slice, reflect.Array:
		n := rows.Len()
		found = append(found, attribute.Int("snowflake.count", n))
		if n > 0 {
			found = append(found, idOf(statement, field, rows.Index(0), "snowflake.id.first")...)
		}
		if n > 1 {
			found = append(found, idOf(statement, field, rows.Index(n-1), "snowflake.id.last")...)
		}
	case reflect.Struct:
		found = append(found, attribute.Int("snowflake.count", 1))
		found = append(found, idOf(statement, field, rows, "snowflake.id.first")...)
	}
	span.SetAttributes(found...)
}

// tagged returns the field that names the row: the tagged key, or else the first tagged field.
func tagged(s *schema.Schema) *schema.Field {
	var first *schema.Field
	for _, field := range s.Fields {
		tag, ok := field.Tag.Lookup("snowflake")
		if !ok || tag == "" || tag == "false" || tag == "-" {
			continue
		}
		if field.PrimaryKey {
			return field
		}
		if first == nil {
			first = field
		}
	}
	return first
}

// idOf returns the attribute of one row, or none if the row has no ID, as rows of maps and nil rows have.
func idOf(
	statement *gorm.Statement, field *schema.Field, row reflect.Value, name string,
) []attribute.KeyValue {
	for row.Kind() == reflect.Pointer || row.Kind() == reflect.Interface {
		if row.IsNil() {
			return nil
		}
		row = row.Elem()
	}
	if row.Kind() != reflect.Struct {
		return nil
	}
	value := reflect.Indirect(field.ReflectValueOf(statement.Context, row))
	switch {
	case !value.IsValid() || value.IsZero():
		return nil
	case value.CanInt():
		return []attribute.KeyValue{attribute.String(name, strconv.FormatInt(value.Int(), 10))}
	case value.CanUint():
		return []attribute.KeyValue{attribute.String(name, strconv.FormatUint(value.Uint(), 10))}
	case value.Kind() == reflect.String:
		return []attribute.KeyValue{attribute.String(name, value.String())}
	}
	return nil
}
