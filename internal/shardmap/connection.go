package shardmap

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// HasTable reports whether a table is there. GORM's own look says no if it cannot ask, and a router that took
// that for an answer would go on with the map of its first start. So it would if it asked elsewhere than the
// rows of the table are read.
func HasTable(ctx context.Context, db *gorm.DB, table string) (bool, error) {
	return dialect.Kind(db.Name()).HasTable(ctx, Source{db}, table)
}

// hasTableIn is [HasTable] for the connection or the transaction of a handle.
func hasTableIn(tx *gorm.DB, table string) (bool, error) {
	return dialect.Kind(tx.Name()).HasTable(tx.Statement.Context, tx.Statement.ConnPool, table)
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

// RefuseOpenSessions refuses a database whose sessions do not commit by themselves, or begin a transaction
// with each commit. Each connection of the pool would go on to read the rows and the map that it has read
// first, and what is written outside of transactions would be lost.
func RefuseOpenSessions(ctx context.Context, database int, db *gorm.DB) error {
	if d, _ := dialect.Of(db.Name()); !d.Autocommits {
		return nil
	}
	found, err := dialect.Texts(ctx, Source{db}, "SELECT CASE @@autocommit WHEN 0 THEN 'autocommit=1' ELSE "+
		"'completion_type=0' END FROM DUAL WHERE @@autocommit = 0 OR @@completion_type NOT IN ('NO_CHAIN', '0')")
	switch {
	case err != nil:
		return fmt.Errorf("database %d: %w", database, err)
	case len(found) > 0:
		return fmt.Errorf("the sessions of database %d leave transactions open, so connections would go on to "+
			"read old rows: add %s to its DSN", database, found[0][0])
	}
	return nil
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

// AutoMigrate lets GORM make the table of a model, or add what it lacks. GORM looks for each thing before it
// adds that, and another program that starts at the same time may come between. So it looks again, unless the
// same thing is in the way as before, which GORM does not see then.
func AutoMigrate(db *gorm.DB, model any) error {
	db = db.Session(&gorm.Session{})
	db.TranslateError = false // in this session's copy of the configuration
	for before := error(nil); ; {
		err := OnOneConnection(db, func(tx *gorm.DB) error { return tx.AutoMigrate(model) })
		if !dialect.Added(err) || before != nil && err.Error() == before.Error() && !dialect.Raced(err) {
			return err
		}
		before = err
	}
}

// MakingTable is the setting of a session that makes a table, which nobody else can see yet.
const MakingTable = "snowflakeplugin:making_table"

// MakeTable makes a table in the transaction of alone, such as [Alone], and reports whether it has. Programs
// that start at the same time all find it missing, so it is looked for once more.
func MakeTable(
	db *gorm.DB, table string, model any, alone func(db *gorm.DB, do func(tx *gorm.DB) error) error,
) (made bool, err error) {
	if db.DryRun {
		return false, nil // AutoMigrate prints what it would do.
	}
	tx := plain(db.Statement.Context, db)
	tx.Statement.ConnPool = sourceOf(db, table)
	err = alone(tx, func(tx *gorm.DB) error {
		there, err := hasTableIn(tx, table)
		if err != nil || there {
			return err
		}
		session := db.Session(&gorm.Session{}).Set(MakingTable, true)
		session.Statement.ConnPool, made = tx.Statement.ConnPool, true
		return session.Migrator().CreateTable(model)
	})
	return made, err
}

// sourceOf returns the pool for a transaction on a table. dbresolver chooses the source for a statement, but
// not for a transaction.
func sourceOf(db *gorm.DB, table string) gorm.ConnPool {
	return db.Session(&gorm.Session{DryRun: true, Logger: logger.Discard}).
		Exec("CREATE TABLE ?", clause.Table{Name: table}).Statement.ConnPool
}

// MakeOrMigrate is [AutoMigrate] for programs that start at the same time.
func MakeOrMigrate(db *gorm.DB, table string, model any) error {
	done, err := HasTable(db.Statement.Context, db, table)
	if err == nil && !done {
		if done, err = MakeTable(db, table, model, Alone); done {
			return err
		}
	}
	if err != nil {
		return err
	}
	return AutoMigrate(db, model)
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
