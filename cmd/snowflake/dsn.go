package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
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
	dsn := o.dsn
	if dsn == "" {
		dsn = e.getenv(dsnVariable)
	}
	db, pool, err := openGORM(dsn)
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
func dialectorOf(dsn string) (gorm.Dialector, error) {
	if dsn == "" {
		return nil, usagef("a database is needed: give --dsn, or set %s", dsnVariable)
	}
	driver, native, err := driverOf(dsn)
	if err != nil {
		return nil, err
	}
	switch driver {
	case driverPostgres:
		return postgres.Open(native), nil
	case driverMySQL:
		return mysql.Open(native), nil
	}
	return sqlite.Open(native), nil
}

// The names under which GORM's dialects register their drivers with database/sql.
const (
	driverPostgres = "pgx"
	driverMySQL    = "mysql"
	driverSQLite   = "sqlite3"
)

// driverOf returns the driver for a DSN, and the DSN in the form that this driver reads.
func driverOf(dsn string) (driver, native string, err error) {
	scheme, _, hasScheme := strings.Cut(dsn, "://")
	switch {
	case hasScheme && (scheme == "postgres" || scheme == "postgresql"):
		return driverPostgres, dsn, nil
	case hasScheme && (scheme == "mysql" || scheme == "mariadb"):
		native, err := mysqlDSN(dsn)
		return driverMySQL, native, err
	case strings.Contains(dsn, "@tcp(") || strings.Contains(dsn, "@unix("):
		return driverMySQL, dsn, nil
	case strings.Contains(dsn, "host=") || strings.Contains(dsn, "dbname="):
		return driverPostgres, dsn, nil
	}
	native, err = sqliteOf(strings.TrimPrefix(dsn, "sqlite:"))
	return driverSQLite, native, err
}

// mysqlDSN converts a URL to the form that the driver reads.
func mysqlDSN(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", usagef("the DSN of MySQL cannot be read: write mysql://user:password@host:3306/database")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	user := u.User.Username()
	if password, ok := u.User.Password(); ok {
		user += ":" + password
	}
	native := fmt.Sprintf("%s@tcp(%s)/%s", user, host, strings.TrimPrefix(u.Path, "/"))
	if u.RawQuery != "" {
		native += "?" + u.RawQuery
	}
	return native, nil
}

// sqliteOf accepts only a file that exists, because a typing mistake must not create a new database.
func sqliteOf(dsn string) (string, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return "", usagef("the DSN is not one of PostgreSQL or MySQL, and there is no file of that name")
	}
	settings, err := url.ParseQuery(query)
	if err != nil {
		return "", usagef("the settings after the question mark of the DSN cannot be read")
	}
	for name, value := range map[string]string{"mode": "rw", "_busy_timeout": "5000"} {
		if !settings.Has(name) {
			settings.Set(name, value)
		}
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode(), nil
}

// openGORM opens the database of a DSN.
func openGORM(dsn string) (*gorm.DB, *sql.DB, error) {
	dialector, err := dialectorOf(dsn)
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
