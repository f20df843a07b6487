package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// databases are where the story happens: a main database and two for tickets. On a server all three are in
// one database, and the tickets have a table each. Everything that happens to the one that stops happens to
// its table.
type databases struct {
	main    gorm.Dialector
	tickets [2]gorm.Dialector
	// hold makes a table answer nobody as long as the connection is in use, and release ends that.
	hold, release string
}

func onSQLite(dir string) databases {
	open := func(name string) gorm.Dialector {
		// With the write-ahead log, readers do not wait for writers.
		return sqlite.Open(filepath.Join(dir, name) + "?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate")
	}
	return databases{
		main:    open("main.db"),
		tickets: [2]gorm.Dialector{open("even.db"), open("odd.db")},
		hold:    "BEGIN EXCLUSIVE", release: "ROLLBACK",
	}
}

func onPostgres(dsn string) databases {
	open := func() gorm.Dialector { return postgres.Open(dsn) }
	return databases{
		main:    open(),
		tickets: [2]gorm.Dialector{open(), open()},
		hold:    "BEGIN; LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", release: "ROLLBACK",
	}
}

func onMySQL(dsn string) databases {
	open := func() gorm.Dialector { return mysql.Open(dsn) }
	return databases{
		main:    open(),
		tickets: [2]gorm.Dialector{open(), open()},
		hold:    "LOCK TABLES %s WRITE", release: "UNLOCK TABLES",
	}
}

// stop makes the database of a table silent, as one is that is stopped or cut off. The function that it
// returns makes it answer again.
func (d databases) stop(ctx context.Context, db *gorm.DB, table string) (start func() error, err error) {
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	hold := d.hold
	if strings.Contains(hold, "%s") {
		hold = fmt.Sprintf(hold, table)
	}
	if _, err := conn.ExecContext(ctx, hold); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), d.release)
		return errors.Join(err, conn.Close())
	}, nil
}

// empty returns an error if the database of a server has tables that the story would use.
func (d databases) empty(ctx context.Context) error {
	tables, err := d.tables(ctx)
	if err == nil && len(tables) > 0 {
		err = fmt.Errorf("the database has tables such as %s already: if this example has left them, drop them, "+
			"otherwise use another database", tables[0])
	}
	return err
}

// tables returns the tables of the story in the main database.
func (d databases) tables(ctx context.Context) (own []string, err error) {
	db, err := openDB(ctx, d.main)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDB(db)) }()
	all, err := db.Migrator().GetTables()
	for _, table := range all {
		if strings.HasPrefix(table, prefix) || strings.HasPrefix(table, "snowflake_") {
			own = append(own, table)
		}
	}
	return own, err
}

// clean drops the tables of the story. There were none when it began.
func (d databases) clean(ctx context.Context) error {
	tables, err := d.tables(ctx)
	if err != nil {
		return err
	}
	db, err := openDB(ctx, d.main)
	if err != nil {
		return err
	}
	for _, table := range tables {
		err = errors.Join(err, db.Migrator().DropTable(table))
	}
	return errors.Join(err, closeDB(db))
}

// openDB opens a database. Its errors do not have the DSN, in which there may be a password.
func openDB(ctx context.Context, kind gorm.Dialector) (*gorm.DB, error) {
	db, err := gorm.Open(kind, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, errors.New("the database does not open: see that its server answers and that the DSN is " +
			"right, and for SQLite that cgo and a C compiler are there")
	}
	return db.WithContext(ctx), nil
}

func closeDB(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}
