package dbtest

import (
	"net/url"
	"path/filepath"
	"strings"
)

// sqliteDSN names a database file in dir, as several connections can use it at once:
//
//   - foreign keys are enforced, which SQLite leaves off;
//   - readers do not block the writer (WAL), and a writer waits for another one;
//   - a transaction takes the write lock when it begins. Taken later, after a read, the lock can
//     be refused at once with SQLITE_BUSY, however long the timeout.
func sqliteDSN(dir string) string {
	path := filepath.ToSlash(filepath.Join(dir, "test.db"))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter: file:///C:/...
	}
	query := url.Values{
		"_foreign_keys": {"1"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_busy_timeout": {"10000"},
		"_txlock":       {"immediate"},
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	return file.String()
}
