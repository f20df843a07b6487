package fill

import (
	"errors"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// dialector is a driver's dialector whose migrators know which columns are filled. GORM has no other place
// where the models of AutoMigrate can be seen before it makes their tables. It has all optional interfaces of
// a dialector. Where the driver lacks one of them, it does what GORM does without that.
type dialector struct {
	gorm.Dialector
	plans *PlanCache
}

// Dialector returns a dialector around a driver's, for a database whose tables AutoMigrate is to make as the
// plans say. Its method Unwrap returns the driver's.
func (c *PlanCache) Dialector(driver gorm.Dialector) gorm.Dialector {
	for d := driver; d != nil; d = unwrapped(d) {
		if own, ok := d.(*dialector); ok && own.plans == c {
			return driver
		}
	}
	return &dialector{driver, c}
}

// Apply changes the configuration that gorm.Open is given.
func (d *dialector) Apply(config *gorm.Config) error {
	if driver, ok := d.Dialector.(interface{ Apply(*gorm.Config) error }); ok {
		return driver.Apply(config)
	}
	return nil
}

// Translate implements gorm.ErrorTranslator.
func (d *dialector) Translate(err error) error {
	if driver, ok := d.Dialector.(gorm.ErrorTranslator); ok {
		return driver.Translate(err)
	}
	return err
}

// SavePoint implements gorm.SavePointerDialectorInterface.
func (d *dialector) SavePoint(tx *gorm.DB, name string) error {
	if driver, ok := d.Dialector.(gorm.SavePointerDialectorInterface); ok {
		return driver.SavePoint(tx, name)
	}
	return gorm.ErrUnsupportedDriver
}

// RollbackTo implements gorm.SavePointerDialectorInterface.
func (d *dialector) RollbackTo(tx *gorm.DB, name string) error {
	if driver, ok := d.Dialector.(gorm.SavePointerDialectorInterface); ok {
		return driver.RollbackTo(tx, name)
	}
	return gorm.ErrUnsupportedDriver
}

// Unwrap returns the driver's dialector.
func (d *dialector) Unwrap() gorm.Dialector { return d.Dialector }

// unwrapped returns what a dialector is around, or nil.
func unwrapped(d gorm.Dialector) gorm.Dialector {
	if around, ok := d.(interface{ Unwrap() gorm.Dialector }); ok {
		return around.Unwrap()
	}
	return nil
}

// Migrator returns the driver's migrator with the plans. GORM asks it again for each table and each column.
func (d *dialector) Migrator(db *gorm.DB) gorm.Migrator {
	m := tables{d.Dialector.Migrator(db), db, d.plans}
	switch driver := m.Migrator.(type) {
	case base:
		return struct {
			tables
			base
		}{m, driver}
	case migrator.BuildIndexOptionsInterface:
		return struct {
			tables
			migrator.BuildIndexOptionsInterface
		}{m, driver}
	}
	return m
}

// base has methods of GORM's own migrator that gorm.Migrator lacks, and that programs ask for. All drivers
// that are built on it have them.
type base interface {
	migrator.BuildIndexOptionsInterface
	DataTypeOf(field *schema.Field) string
	CurrentTable(stmt *gorm.Statement) any
	ReorderModels(values []any, autoAdd bool) []any
	RunWithValue(value any, run func(*gorm.Statement) error) error
}

// tables is a driver's migrator that makes the plan of a model before it looks at a field of it.
type tables struct {
	gorm.Migrator
	db    *gorm.DB
	plans *PlanCache
}

// Unwrap returns the driver's migrator.
func (m tables) Unwrap() gorm.Migrator { return m.Migrator }

// prepared makes the plans of models for the table of the handle, and does something unless they have faults.
// It leaves to GORM what it cannot parse.
func (m tables) prepared(models []any, do func() error) error {
	var faults []error
	for _, model := range models {
		stmt := &gorm.Statement{DB: m.db, Table: m.db.Statement.Table}
		if _, name := model.(string); name || stmt.ParseWithSpecialTableName(model, stmt.Table) != nil {
			continue
		}
		_, err := m.plans.Prepare(stmt.Schema)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return do()
}

// AutoMigrate makes or extends the tables of models, unless a tag is at fault, which is better known
// before there is a table.
func (m tables) AutoMigrate(models ...any) error {
	return m.prepared(models, func() error { return m.Migrator.AutoMigrate(models...) })
}

// OnlyExisting is the setting of a session that changes a table which is there, and must not make it.
const OnlyExisting = "snowflakeplugin:only_existing"

// CreateTable makes the tables of models. AutoMigrate calls it for related models, too.
func (m tables) CreateTable(models ...any) error {
	if _, only := m.db.Get(OnlyExisting); only {
		return dialect.Absent(m.db.Statement.Table)
	}
	return m.prepared(models, func() error { return m.Migrator.CreateTable(models...) })
}

// AddColumn adds the column of a field to a table.
func (m tables) AddColumn(model any, field string) error {
	return m.prepared([]any{model}, func() error { return m.Migrator.AddColumn(model, field) })
}

// AlterColumn gives a column the type of its field.
func (m tables) AlterColumn(model any, field string) error {
	return m.prepared([]any{model}, func() error { return m.Migrator.AlterColumn(model, field) })
}

// MigrateColumn gives a column what its field has and it lacks. GORM calls it for each column of a table that
// was there already, and has read the catalog then.
func (m tables) MigrateColumn(model any, field *schema.Field, column gorm.ColumnType) error {
	return m.prepared([]any{model}, func() error {
		plan := m.plans.Of(field.Schema)
		if m.plans.Watcher.Counted != nil && plan.Fills(field) && m.counts(field, column) {
			m.plans.Watcher.Counted(plan, field)
		}
		// The driver of MySQL looks at columns twice, and GORM would panic about one that the second look alone
		// has found: another program has added it in between, or it is invisible.
		if c, ok := column.(migrator.ColumnType); ok && c.SQLColumnType == nil {
			return nil
		}
		return m.Migrator.MigrateColumn(model, field, column)
	})
}

// counts reports whether the database makes the values of a column itself. Drivers tell it, but those of
// SQLite, and that of PostgreSQL for a sequence with a name of its own.
func (m tables) counts(field *schema.Field, column gorm.ColumnType) bool {
	if counts, _ := column.AutoIncrement(); counts {
		return true
	}
	kind, s := column.DatabaseTypeName(), field.Schema
	switch {
	case m.db.Name() == dialect.PostgreSQL:
		value, _ := column.DefaultValue()
		return strings.HasPrefix(value, "nextval(")
	case m.db.Name() != dialect.SQLite || !field.PrimaryKey || len(s.PrimaryFields) > 1 ||
		dialect.Rowid(kind, "") == "":
		return false
	}
	var ddl string
	db := m.db.Session(&gorm.Session{NewDB: true})
	db.DryRun = false
	query := "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
	return db.Raw(query, s.Table).Scan(&ddl).Error == nil && dialect.Rowid(kind, ddl) != ""
}

// FullDataTypeOf returns the type of a column. On SQLite, an integer that is the primary key would be the
// rowid, which SQLite makes by itself where a row has none. So a program whose model lacks the tag would
// store rows with keys of its own, and no other database would let it.
func (m tables) FullDataTypeOf(field *schema.Field) clause.Expr {
	if field.Schema == nil {
		return m.Migrator.FullDataTypeOf(field)
	}
	plan := m.plans.Of(field.Schema)
	expr := m.Migrator.FullDataTypeOf(field)
	_, chosen := field.TagSettings["TYPE"]
	if m.db.Name() == dialect.SQLite && field.PrimaryKey && !chosen && plan.Fills(field) {
		if rest, is := strings.CutPrefix(expr.SQL, "integer"); is {
			expr.SQL = "bigint" + rest
		}
	}
	return expr
}
