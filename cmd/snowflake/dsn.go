package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
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

// openStore opens the store in the database that the options name. Unless makeTable is set, the table must
// exist already.
func openStore(ctx context.Context, e *env, o *options, makeTable bool) (*gormlease.Store, error) {
	db, err := openTable(ctx, e, o.database(e), o.table, makeTable, "node", "no process has leased a node")
	if err != nil {
		return nil, err
	}
	return leasesIn(ctx, e, db, o.table)
}

// leasesIn opens the leases in a table of a database that is open.
func leasesIn(ctx context.Context, e *env, db *gorm.DB, table string) (*gormlease.Store, error) {
	store, err := gormlease.New(db.WithContext(ctx), gormlease.WithTable(table))
	if err == nil {
		e.opened = append(e.opened, store)
	}
	return store, err
}

// database is the DSN that the options or the environment name.
func (o *options) database(e *env) string { return cmp.Or(o.dsn, e.getenv(dsnVariable)) }

// errNoTable is returned if the database has no such table.
var errNoTable = errors.New("the database has no table")

// openTable opens the database of a DSN for a store of a table. Unless makeTable is set, the table must be
// there. Otherwise the error wraps errNoTable, and says what has not happened yet.
func openTable(
	ctx context.Context, e *env, dsn, table string, makeTable bool, column, empty string,
) (*gorm.DB, error) {
	db, _, err := openGORM(e, dsn)
	if err != nil || makeTable {
		return db, err
	}
	// It reads from the table, because a login without the right to read does not find it in the catalog.
	var found []any
	err = db.WithContext(ctx).Table(table).Limit(1).Pluck(column, &found).Error
	if dialect.Missing(err) {
		err = fmt.Errorf("%w %s: %s here yet, or the table has another name; give it with --table", errNoTable,
			table, empty)
	}
	return db, err
}

// answerNone answers that a default table is not there. That is no failure: many databases have none.
func answerNone(e *env, o *options, err error) error {
	say(e.err, "snowflake: %s\n", err)
	if o.json {
		return printJSON(e.out, []any{})
	}
	return nil
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
	return map[string]func(string) gorm.Dialector{
		dsn.PostgreSQL: postgres.Open, dsn.MySQL: mysql.Open, dsn.SQLite: sqlite.Open,
	}[driver](native), nil
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

// openGORM opens the database of a DSN, until the command has ended.
func openGORM(e *env, text string) (*gorm.DB, *sql.DB, error) {
	dialector, err := dialectorOf(text)
	if err != nil {
		return nil, nil, err
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the %s database: %w", dialector.Name(), err)
	}
	pool, err := db.DB()
	if err == nil {
		e.opened = append(e.opened, pool)
	}
	return db, pool, err
}

// secretsOf finds the secrets of a plan. Package merge does not print them, but a driver may repeat one in an
// error.
func secretsOf(plan *merge.Plan) dsn.Secrets {
	all := []string{plan.Target.DSN}
	for _, s := range plan.Servers {
		all = append(all, s.DSN)
	}
	for i, one := range all {
		if name, ok := strings.CutPrefix(one, "$"); ok {
			all[i] = os.Getenv(strings.Trim(name, "{}"))
		}
	}
	return dsn.SecretsOf(all...)
}
