package sources

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3" // the driver of the database that needs no server

	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
)

const (
	// dialTimeout and readTimeout bound what a database that does not answer can hold up.
	dialTimeout = 5 * time.Second
	readTimeout = 10 * time.Second
	// busyTimeout is how long SQLite waits for another process, in milliseconds.
	busyTimeout = "5000"
)

// errDSN says what a DSN looks like. No error repeats one, because it may hold a password.
var errDSN = errors.New("the DSN cannot be read; write postgres://user:password@host/database, " +
	"mysql://user:password@host:3306/database for MySQL and MariaDB, or sqlite:path of a file")

// Database is a database whose kind is known.
type Database struct {
	Dialect sqllease.Dialect
	// Name says in a log which one it is: the file of SQLite, or the server and the database. It has no
	// password.
	Name string
	// Open returns a pool of its own. The server sees the name of the application, where it has a place for
	// one.
	Open func(application string) (*sql.DB, error)
}

// ParseDSN reads a DSN. It connects to nothing.
func ParseDSN(text string) (Database, error) {
	d, err := dsn.Parse(text)
	switch {
	case err != nil:
		return Database{}, errDSN
	case d.Driver == dsn.PostgreSQL:
		return parsePostgres(d.Native)
	case d.Driver == dsn.MySQL:
		return parseMySQL(d.Native)
	case !strings.HasPrefix(text, "sqlite:") || d.Path == "":
		return Database{}, errDSN
	case strings.ContainsAny(text, "?#") || strings.Contains(text, ":memory:"):
		return Database{}, fmt.Errorf("%w; the DSN of SQLite is a plain path, because its settings are fixed",
			errDSN)
	}
	return parseSQLite(d)
}

func parsePostgres(native string) (Database, error) {
	config, err := pgx.ParseConfig(native)
	if err != nil {
		return Database{}, errDSN
	}
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, dialTimeout)
	name := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))) + "/" + config.Database
	return Database{Dialect: sqllease.PostgreSQL, Name: name, Open: func(application string) (*sql.DB, error) {
		own := config.Copy()
		own.RuntimeParams["application_name"] = cmp.Or(own.RuntimeParams["application_name"], application)
		return stdlib.OpenDB(*own), nil
	}}, nil
}

func parseMySQL(native string) (Database, error) {
	config, err := mysql.ParseDSN(native)
	if err != nil || config.DBName == "" {
		return Database{}, errDSN
	}
	config.Timeout = cmp.Or(config.Timeout, dialTimeout)
	config.ReadTimeout = cmp.Or(config.ReadTimeout, readTimeout)
	config.Logger = &mysql.NopLogger{} // what goes wrong is returned as an error, too
	name := config.Addr + "/" + config.DBName
	return Database{Dialect: sqllease.MySQL, Name: name, Open: func(application string) (*sql.DB, error) {
		own := config.Clone()
		own.ConnectionAttributes = cmp.Or(own.ConnectionAttributes, "program_name:"+application)
		connector, err := mysql.NewConnector(own)
		if err != nil {
			return nil, errDSN
		}
		return sql.OpenDB(connector), nil
	}}, nil
}

// parseSQLite accepts a path. The file is made if it is not there, but its directory is not.
func parseSQLite(d dsn.DSN) (Database, error) {
	if info, err := os.Stat(filepath.Dir(d.Path)); err != nil || !info.IsDir() {
		return Database{}, fmt.Errorf("the directory of the SQLite file %s is not there", d.Path)
	}
	location, err := d.File(map[string]string{
		"mode": "rwc", "_busy_timeout": busyTimeout, "_synchronous": "FULL", "_txlock": "immediate",
	})
	return Database{Dialect: sqllease.SQLite, Name: d.Path, Open: func(string) (*sql.DB, error) {
		return sql.Open("sqlite3", location)
	}}, err
}
