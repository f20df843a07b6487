package dbtest

import (
	"net/url"
	"strings"
)

// defaultMaxOpenConns is small because many tests run at once: PostgreSQL allows 100 connections,
// and go test runs several packages in parallel.
const defaultMaxOpenConns = 8

// An Option changes how [Target.Open] and [Target.OpenDSN] open a handle.
type Option func(*settings)

type settings struct {
	maxOpenConns int
	params       []param
	searchPath   string
}

type param struct{ key, value string }

// MaxOpenConns sets how many connections the handle may have open at once. Zero or less means no
// limit, as in database/sql. The default is 8.
func MaxOpenConns(n int) Option {
	return func(s *settings) { s.maxOpenConns = n }
}

// DSNParam sets a parameter in the DSN of the mysql dialect, for example clientFoundRows=true. It
// replaces an earlier parameter of the same name. On other dialects it does nothing.
func DSNParam(key, value string) Option {
	return func(s *settings) { s.params = append(s.params, param{key, value}) }
}

// SearchPath sets the search path of PostgreSQL in the DSN. On other dialects it does nothing.
func SearchPath(schemas ...string) Option {
	return func(s *settings) { s.searchPath = strings.Join(schemas, ",") }
}

func settingsOf(opts []Option) settings {
	s := settings{maxOpenConns: defaultMaxOpenConns}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// mysqlDSN appends the parameters. Of two parameters with the same name, the driver uses the last
// one.
func (s settings) mysqlDSN(dsn string) string {
	var b strings.Builder
	b.WriteString(dsn)
	// The parameters follow the last slash. A question mark before that slash is part of a
	// password.
	separator := byte('?')
	if strings.Contains(dsn[strings.LastIndexByte(dsn, '/')+1:], "?") {
		separator = '&'
	}
	for _, p := range s.params {
		b.WriteByte(separator)
		b.WriteString(p.key + "=" + url.QueryEscape(p.value))
		separator = '&'
	}
	return b.String()
}
