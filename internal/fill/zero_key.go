package fill

import (
	"context"
	"database/sql/driver"
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// KeyClauses returns what a field of the type ID adds to every create of its model: a check that the
// field is never stored as 0 if it belongs to the primary key. Several such rows would become one as
// soon as they are saved with ON CONFLICT. GORM asks for the clauses of a field when it parses the
// model, so the check works without the plugin, too. For the same reason this is where the column of such
// a key becomes NOT NULL.
func KeyClauses(field *schema.Field) []clause.Interface {
	notNull(field)
	if !field.PrimaryKey || !isColumn(field.Schema, field) || field.HasDefaultValue {
		return nil // another field stands for the column, or the database has a default for a zero
	}
	column, err := newColumn(field, 0, nil)
	if err != nil {
		return nil // a declared size or a serializer makes it something else than an ID
	}
	column.noZeroKeys()
	return []clause.Interface{keyClause{column}}
}

// noZeroKeys makes GORM refuse an INSERT of a struct that has a zero in the column, if the column belongs
// to the primary key. The plugin has filled the column before, unless the application has put the callbacks
// of GORM or of the plugin where they do not come before the INSERT. The schema must not be in use yet.
func (c *column) noZeroKeys() {
	integer := c.kind == kindInt || c.kind == kindUint
	if f := c.field; integer && !c.pointer && c.source == nil && f.PrimaryKey && !f.HasDefaultValue &&
		f.DefaultValueInterface == nil {
		f.DefaultValueInterface = zeroKey{keyClause{c}}
	}
}

// zeroKey is what GORM puts into an INSERT in place of a zero key, because it stands as the default of
// the field in the model. The table has no such default, since field.HasDefaultValue is false. This also
// refuses the zeros of structs under Unscoped, where GORM leaves out the clauses of fields and where a
// database without the plugin has nothing else that would see them. A key that is set never meets it.
type zeroKey struct{ check keyClause }

// Value returns the zero that GORM writes into the struct in place of the default.
func (zeroKey) Value() (driver.Value, error) { return int64(0), nil }

// GormValue refuses the statement that is being built, unless that was done before.
func (z zeroKey) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	stmt, c := db.Statement, z.check
	if db.Error != nil {
		return clause.Expr{SQL: "0"}
	}
	if row, found := c.zeroRow(stmt); found {
		c.refuse(stmt, row)
	} else { // GORM takes the fields of another type as well if they lie at the same places
		_ = stmt.AddError(fmt.Errorf("%w: %s.%s is 0 in a %T, which is never filled because it is not of the "+
			"type %v of the model: create one of those, or set the key",
			errs.ErrZeroKey, stmt.Schema.Name, c.field.Name, stmt.Dest, stmt.Schema.ModelType))
	}
	return clause.Expr{SQL: "0"}
}

// keyClause is the check of one field. It adds nothing to the SQL.
type keyClause struct{ *column }

var _ gorm.StatementModifier = keyClause{}

// Name returns the name of the check.
func (keyClause) Name() string { return PluginName + ":key" }

// Build writes nothing.
func (keyClause) Build(clause.Builder) {}

// MergeClause does nothing, because GORM calls ModifyStatement in its place.
func (keyClause) MergeClause(*clause.Clause) {}

// ModifyStatement refuses the statement if it would store a zero key. GORM calls it right before it
// builds the INSERT, unless the statement is Unscoped; see zeroKey and checkUnscoped.
func (c keyClause) ModifyStatement(stmt *gorm.Statement) {
	if stmt.Error != nil || stmt.SQL.Len() > 0 {
		return
	}
	if row, found := c.zeroRow(stmt); found {
		c.refuse(stmt, row)
	}
	c.yieldByOther(stmt)
}

// yieldByOther lets DO NOTHING name another column of the INSERT, if that leaves the key out. MariaDB stores
// 0 in the key otherwise, because it takes a column that ON DUPLICATE KEY UPDATE names for one with a value.
func (c keyClause) yieldByOther(stmt *gorm.Statement) {
	conflict, _ := stmt.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	sent := sentFields(stmt)
	if dialect.Kind(stmt.Name()).HasTarget() || !conflict.DoNothing || sent(c.field) {
		return
	}
	for _, name := range stmt.Schema.DBNames {
		if column := (clause.Column{Name: name}); sent(stmt.Schema.FieldsByDBName[name]) {
			stmt.AddClause(clause.OnConflict{DoUpdates: clause.Set{{Column: column, Value: column}}})
			return
		}
	}
	delete(stmt.Clauses, clauseOnConflict)
}

func (c keyClause) refuse(stmt *gorm.Statement, row int) {
	_ = stmt.AddError(fmt.Errorf("%w: %s.%s of row %d is 0: %s",
		errs.ErrZeroKey, stmt.Schema.Name, c.field.Name, row, c.remedy(stmt)))
}

// zeroRow finds the first row that would store a zero.
func (c keyClause) zeroRow(stmt *gorm.Statement) (int, bool) {
	var one [1]map[string]any
	if maps, ok := mapsOf(stmt.Dest, &one); ok {
		for i, m := range maps {
			for key, value := range m {
				if stmt.Schema.LookUpField(key) != c.field {
					continue
				}
				if id, is := IDOf(value); is && id == 0 { // NULL is none
					return i, true
				}
			}
		}
		return 0, false
	}
	if !sentFields(stmt)(c.field) {
		return 0, false
	}
	rv := reflect.Indirect(stmt.ReflectValue)
	switch rv.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range rv.Len() {
			if c.isZeroIn(rv.Index(i)) {
				return i, true
			}
		}
	case reflect.Struct:
		return 0, c.isZeroIn(rv)
	}
	return 0, false
}

// isZeroIn reports whether a struct, or the struct that a pointer leads to, has a zero in the field.
func (c keyClause) isZeroIn(row reflect.Value) bool {
	row = reflect.Indirect(row)
	if !row.IsValid() || row.Type() != c.field.Schema.ModelType {
		return false // GORM refuses it
	}
	cell, ok := c.locate(row, false)
	if !ok {
		return true // GORM makes the embedded struct, and its fields are zero
	}
	if c.pointer {
		if cell.IsNil() {
			return false // NULL
		}
		cell = cell.Elem()
	}
	return cell.IsZero()
}

// remedy says what the program has to do.
func (c keyClause) remedy(stmt *gorm.Statement) string {
	_, registered := stmt.Plugins[PluginName]
	tagged, _ := isTagged(c.field.Tag)
	switch {
	case isForeignKey(stmt.Schema, c.field):
		return "set it to the ID of the row that it refers to"
	case registered && !IsInUse(stmt.DB):
		return "db.Use has registered the plugin, but the application has removed its callback " + callbackFill +
			": keep it"
	case !registered && tagged:
		return "the database does not use the plugin: call db.Use(snowflakeplugin.New()), or set the key"
	case !registered:
		return "tag the field " + TagName + `:"true" and call db.Use(snowflakeplugin.New()), or set the key`
	case !tagged:
		return "tag the field " + TagName + `:"true", or set the key`
	}
	return "set the key, and keep the callbacks " + callbackFill + " and " + callbackInsert
}

// checkUnscoped makes the checks of a statement that GORM does not make, because it leaves out the
// clauses of fields under Unscoped.
func checkUnscoped(stmt *gorm.Statement) {
	if !stmt.Unscoped || stmt.Schema == nil {
		return
	}
	for _, c := range stmt.Schema.CreateClauses {
		if check, ok := c.(keyClause); ok {
			check.ModifyStatement(stmt)
		}
	}
}
