package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

const (
	dsnVariable  = "SNOWFLAKE_DSN"
	defaultTable = "snowflake_nodes"

	dsnHelp = `
A DSN is postgres://user:password@host/database, mysql://user:password@host:3306/database for MySQL and
MariaDB, or the path of an existing SQLite file. Without --dsn the command reads the environment variable
SNOWFLAKE_DSN, which hides the password from other users of the machine.`
)

func dsnFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.dsn, "dsn", "", "the `DSN` of the database with the leases (default $"+dsnVariable+")")
	set.StringVar(&o.table, "table", defaultTable, "the `TABLE` of the leases, with its schema if it needs one")
}

// openStore opens the store in the database that the options name, and returns the function that closes
// it. Unless makeTable is set, the table must exist already.
func openStore(
	ctx context.Context, e *env, o *options, makeTable bool,
) (*gormlease.Store, func() error, error) {
	db, pool, err := openGORM(cmp.Or(o.dsn, e.getenv(dsnVariable)))
	if err != nil {
		return nil, nil, err
	}
	if !makeTable {
		if err := findTable(db.WithContext(ctx), o.table); err != nil {
			return nil, nil, errors.Join(err, pool.Close())
		}
	}
	//nolint:contextcheck // it waits under the context of db
	store, err := gormlease.New(db.WithContext(ctx), gormlease.WithTable(o.table))
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return store, func() error { return errors.Join(store.Close(), pool.Close()) }, nil
}

// errNoTable is returned if the database has no table of leases.
var errNoTable = errors.New("the database has no table")

// findTable returns an error that wraps errNoTable if there is no such table. It reads from the table,
// because a login without the right to read it does not find it in the catalog.
func findTable(db *gorm.DB, table string) error {
	var node []int64
	err := db.Table(table).Limit(1).Pluck("node", &node).Error
	if dialect.Missing(err) {
		return fmt.Errorf("%w %s: no process has leased a node here yet, or the table has another name; "+
			"give it with --table", errNoTable, table)
	}
	return err
}

// dialectorOf returns the dialect for a DSN. No error repeats the DSN, because it may hold a password.
func dialectorOf(text string) (gorm.Dialector, error) {
	if text == "" {
		return nil, usagef("a database is needed: give --dsn, or set %s", dsnVariable)
	}
	driver, native, err := driverOf(text)
	if err != nil {
		return nil, err
	}
	switch driver {
	case dsn.PostgreSQL:
		return postgres.Open(native), nil
	case dsn.MySQL:
		return mysql.Open(native), nil
	}
	return sqlite.Open(native), nil
}

// driverOf returns the driver for a DSN, and the DSN in the form that this driver reads.
func driverOf(text string) (driver, native string, err error) {
	d, err := dsn.Parse(text)
	if err == nil && d.Driver == dsn.SQLite {
		// The file has to exist, because a typing mistake must not create a new database.
		if info, err := os.Stat(d.Path); err != nil || info.IsDir() {
			return "", "", usagef("the DSN is not one of PostgreSQL or MySQL, and there is no file of that name")
		}
		d.Native, err = d.File(map[string]string{"mode": "rw", "_busy_timeout": "5000"})
	}
	if err != nil {
		return "", "", usagef("%v", err)
	}
	return d.Driver, d.Native, nil
}

// openGORM opens the database of a DSN.
func openGORM(text string) (*gorm.DB, *sql.DB, error) {
	dialector, err := dialectorOf(text)
	if err != nil {
		return nil, nil, err
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the %s database: %w", dialector.Name(), err)
	}
	pool, err := db.DB()
	return db, pool, err
}

// closers closes what a command has opened.
type closers []func() error

func (c closers) close() error {
	var errs []error
	for _, one := range slices.Backward(c) {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}
