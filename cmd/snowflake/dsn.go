package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

const (
	dsnVariable  = "SNOWFLAKE_DSN"
	defaultTable = "snowflake_nodes"

	dsnHelp = `
A DSN is postgres://user:password@host/database, user:password@tcp(host:3306)/database for MySQL and
MariaDB, or the path of a SQLite file. It may also stand in the environment variable SNOWFLAKE_DSN,
where other users of the machine do not see its password.`
)

func dsnFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.dsn, "dsn", "", "the `DSN` of the database; by default $"+dsnVariable)
	set.StringVar(&o.table, "table", defaultTable, "the `TABLE` of the leases, with a schema if need be")
}

// openStore opens the store in the database that the options name, and returns what closes it. The
// table must be there already, unless makeTable is set.
func openStore(
	ctx context.Context, e *env, o *options, makeTable bool,
) (*gormlease.Store, func() error, error) {
	dsn := o.dsn
	if dsn == "" {
		dsn = e.getenv(dsnVariable)
	}
	dialector, err := dialectorOf(dsn)
	if err != nil {
		return nil, nil, err
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, fmt.Errorf("the %s database cannot be opened: %w", dialector.Name(), err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	if !makeTable && !db.WithContext(ctx).Migrator().HasTable(o.table) {
		return nil, nil, errors.Join(fmt.Errorf("the database has no table %s: no process has leased a node "+
			"here, or the table has another name (--table)", o.table), pool.Close())
	}
	//nolint:contextcheck // it waits under the context of db
	store, err := gormlease.New(db.WithContext(ctx), gormlease.Table(o.table))
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return store, func() error { return errors.Join(store.Close(), pool.Close()) }, nil
}

// dialectorOf tells which database a DSN is for. No message repeats it.
func dialectorOf(dsn string) (gorm.Dialector, error) {
	if dsn == "" {
		return nil, usagef("which database? Say --dsn, or set %s", dsnVariable)
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

// driverOf tells which driver a DSN is for, and how that one writes it.
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

// mysqlDSN turns a URL into what the driver reads.
func mysqlDSN(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", usagef("that is no DSN of MySQL: write mysql://user:password@host:3306/database")
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

// sqliteOf opens a file that exists: a typing mistake must not make a new database.
func sqliteOf(dsn string) (string, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return "", usagef("the DSN is neither one of PostgreSQL nor of MySQL, and there is no file of that name")
	}
	settings, err := url.ParseQuery(query)
	if err != nil {
		return "", usagef("the settings behind the question mark of the DSN cannot be read")
	}
	for name, value := range map[string]string{"mode": "rw", "_busy_timeout": "5000"} {
		if !settings.Has(name) {
			settings.Set(name, value)
		}
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode(), nil
}
