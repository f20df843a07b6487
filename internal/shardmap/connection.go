package shardmap

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// HasTable reports whether a table is there. GORM's own look says no if it cannot ask, and a router that took
// that for an answer would go on with the map of its first start. So it would if it asked elsewhere than the
// rows of the table are read.
func HasTable(ctx context.Context, db *gorm.DB, table string) (bool, error) {
	return dialect.Kind(db.Name()).HasTable(ctx, Source{db}, table)
}

// Source sends what it is asked to where the router's own statements go. A handle's own pool need not be
// there: dbresolver may have sources beside it.
type Source struct{ DB *gorm.DB }

// QueryContext asks.
func (s Source) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	tx := plain(ctx, s.DB)
	tx.DryRun = false // of this session alone: what is not asked has no answer
	return tx.Raw(query, args...).Rows()
}

// OnOneConnection calls fn with a handle that looks at tables, or changes them. On SQLite the handle has
// one connection. A connection of SQLite keeps the schema that it read last, and notices that another
// connection has changed a table only when it runs the next statement. The driver names the columns of a
// result before that. So GORM may see columns as they were before, unless the statement with which it
// begins runs on the same connection.
func OnOneConnection(db *gorm.DB, fn func(tx *gorm.DB) error) error {
	if !dialect.Kind(db.Name()).Embedded() {
		return fn(db)
	}
	if _, err := db.DB(); err != nil {
		return fn(db) //nolint:nilerr // The pool belongs to the application and may not be a sql.DB.
	}
	return db.Connection(fn)
}

// AutoMigrate lets GORM make the table of a model, or add what it lacks.
func AutoMigrate(db *gorm.DB, model any) error {
	return OnOneConnection(db, func(tx *gorm.DB) error { return tx.AutoMigrate(model) })
}

// atSource is the setting by which dbresolver sends a statement to the source of a database, and not to one
// of its replicas: these may be behind, and know an older map and older tables.
const atSource = "gorm:db_resolver:write"

// AtSource returns a handle whose statements go to the source.
func AtSource(db *gorm.DB) *gorm.DB { return db.Set(atSource, true).Session(&gorm.Session{}) }

// plain returns a handle for the router's own statements.
func plain(ctx context.Context, db *gorm.DB) *gorm.DB {
	return AtSource(db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true}))
}

// InternalTable returns the name of one of the router's own tables, spelled by the naming strategy of
// the application.
func InternalTable(db *gorm.DB, name string) string { return db.NamingStrategy.TableName(name) }
