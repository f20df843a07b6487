// Package dsn reads the DSNs of the command and of the service, and keeps their passwords out of errors.
package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// The names under which the drivers register with database/sql.
const (
	PostgreSQL = "pgx"
	MySQL      = "mysql" // and MariaDB and TiDB
	SQLite     = "sqlite3"
)

// No error repeats a DSN, because it may hold a password.
var (
	errMySQL    = errors.New("the DSN of MySQL cannot be read: write mysql://user:password@host:3306/database")
	errSettings = errors.New("the settings after the question mark of the DSN cannot be read")
)

// DSN is a DSN whose driver is known.
type DSN struct {
	Driver string
	// Native is what the drivers of PostgreSQL and MySQL read. See [DSN.File] for SQLite.
	Native string
	// Path is the file of SQLite.
	Path string

	query string
}

// Parse reads a DSN. What is none of PostgreSQL or MySQL is taken for the path of a file of SQLite, which the
// caller has to look at.
func Parse(text string) (DSN, error) {
	if scheme, _, isURL := strings.Cut(text, "://"); isURL {
		switch scheme {
		case "postgres", "postgresql":
			return DSN{Driver: PostgreSQL, Native: text}, nil
		case "mysql", "mariadb":
			return parseMySQL(text)
		}
	}
	switch {
	case strings.Contains(text, "@tcp(") || strings.Contains(text, "@unix("):
		return DSN{Driver: MySQL, Native: text}, nil
	case strings.Contains(text, "host=") || strings.Contains(text, "dbname="):
		return DSN{Driver: PostgreSQL, Native: text}, nil
	}
	path, query, _ := strings.Cut(text, "?")
	for _, scheme := range []string{"sqlite:", "file:"} {
		if rest, ok := strings.CutPrefix(path, scheme); ok {
			path = strings.TrimPrefix(rest, "//")
		}
	}
	return DSN{Driver: SQLite, Path: path, query: query}, nil
}

// parseMySQL converts a URL to the form that the driver reads.
func parseMySQL(text string) (DSN, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return DSN{}, errMySQL
	}
	host, user := u.Host, u.User.Username()
	if u.Port() == "" {
		host = strings.TrimSuffix(host, ":") + ":3306"
	}
	if password, ok := u.User.Password(); ok {
		user += ":" + password
	}
	native := fmt.Sprintf("%s@tcp(%s)/%s", user, host, url.PathEscape(strings.TrimPrefix(u.Path, "/")))
	if u.RawQuery != "" {
		native += "?" + u.RawQuery
	}
	return DSN{Driver: MySQL, Native: native}, nil
}

// File returns the DSN that the driver of SQLite reads, with defaults for the settings that it lacks.
func (d DSN) File(defaults map[string]string) (string, error) {
	settings, err := url.ParseQuery(d.query)
	if err != nil {
		return "", errSettings
	}
	for name, value := range defaults {
		if !settings.Has(name) {
			settings.Set(name, value)
		}
	}
	return "file:" + (&url.URL{Path: d.Path}).EscapedPath() + "?" + settings.Encode(), nil
}
