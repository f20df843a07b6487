package sources

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3" // the driver of the database that needs no server

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
	open    func(application string) (*sql.DB, error)
}

// ParseDSN reads a DSN. It connects to nothing.
func ParseDSN(dsn string) (Database, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		return parsePostgres(dsn)
	case scheme == "mysql" || scheme == "mariadb":
		return parseMySQL(dsn)
	case strings.Contains(dsn, "@tcp(") || strings.Contains(dsn, "@unix("):
		return nativeMySQL(dsn)
	case strings.Contains(dsn, "host=") || strings.Contains(dsn, "dbname="):
		return parsePostgres(dsn)
	case scheme == "sqlite" && rest != "":
		return parseSQLite(rest)
	}
	return Database{}, errDSN
}

// Open returns a pool of its own. The server sees the name of the application, where it has a place for
// one.
func (d Database) Open(application string) (*sql.DB, error) { return d.open(application) }

func parsePostgres(dsn string) (Database, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return Database{}, errDSN
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = dialTimeout
	}
	return Database{Dialect: sqllease.PostgreSQL, open: func(application string) (*sql.DB, error) {
		own := config.Copy()
		if own.RuntimeParams["application_name"] == "" {
			own.RuntimeParams["application_name"] = application
		}
		return stdlib.OpenDB(*own), nil
	}}, nil
}

func parseMySQL(text string) (Database, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
		return Database{}, errDSN
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	native := config.FormatDSN()
	if u.RawQuery != "" {
		// FormatDSN adds settings of its own where they differ from its defaults.
		joint := "?"
		if strings.Contains(native[strings.LastIndex(native, "/"):], "?") {
			joint = "&"
		}
		native += joint + u.RawQuery
	}
	return nativeMySQL(native)
}

func nativeMySQL(dsn string) (Database, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return Database{}, errDSN
	}
	if config.Timeout == 0 {
		config.Timeout = dialTimeout
	}
	if config.ReadTimeout == 0 {
		config.ReadTimeout = readTimeout
	}
	config.Logger = &mysql.NopLogger{} // what goes wrong is returned as an error, too
	return Database{Dialect: sqllease.MySQL, open: func(application string) (*sql.DB, error) {
		own := config.Clone()
		if own.ConnectionAttributes == "" {
			own.ConnectionAttributes = "program_name:" + application
		}
		connector, err := mysql.NewConnector(own)
		if err != nil {
			return nil, errDSN
		}
		return sql.OpenDB(connector), nil
	}}, nil
}

// parseSQLite accepts a path. The file is made if it is not there, but its directory is not.
func parseSQLite(path string) (Database, error) {
	path = strings.TrimPrefix(path, "//")
	if strings.ContainsAny(path, "?#") || strings.Contains(path, ":memory:") {
		return Database{}, fmt.Errorf("%w; the DSN of SQLite is a plain path, because its settings are fixed",
			errDSN)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return Database{}, fmt.Errorf("the directory of the SQLite file %s is not there", path)
	}
	settings := url.Values{
		"mode": {"rwc"}, "_busy_timeout": {busyTimeout}, "_synchronous": {"FULL"}, "_txlock": {"immediate"},
	}
	location := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode()
	return Database{Dialect: sqllease.SQLite, open: func(string) (*sql.DB, error) {
		return sql.Open("sqlite3", location)
	}}, nil
}
