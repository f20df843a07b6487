package dbtest

import (
	"net/url"
	"strings"
)

// defaultMaxOpenConns leaves room for many tests at once: PostgreSQL allows 100 connections, and
// go test runs several packages side by side.
const defaultMaxOpenConns = 8

// An Option changes how [Target.Open] and its kin open a handle.
type Option func(*settings)

type settings struct {
	maxOpenConns int
	params       []param
}

type param struct{ key, value string }

// MaxOpenConns tells how many connections the handle may have open at once. Zero or less is no
// limit, as in database/sql. By default it is 8.
func MaxOpenConns(n int) Option {
	return func(s *settings) { s.maxOpenConns = n }
}

// DSNParam adds a parameter to the DSN of the mysql dialect, for example clientFoundRows=true,
// in place of an earlier one of that name. On other dialects it does nothing.
func DSNParam(key, value string) Option {
	return func(s *settings) { s.params = append(s.params, param{key, value}) }
}

func settingsOf(opts []Option) settings {
	s := settings{maxOpenConns: defaultMaxOpenConns}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// mysqlDSN appends the parameters. The driver lets the last of two equal names win.
func (s settings) mysqlDSN(dsn string) string {
	var b strings.Builder
	b.WriteString(dsn)
	// Parameters come after the last slash; a question mark before it belongs to a password.
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
