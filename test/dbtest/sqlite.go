package dbtest

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// newSQLite makes a database file and returns its DSN. The file is in WAL mode from then on. If several
// handles opened a new file at the same moment, each would switch it, and SQLite refuses that at once.
func newSQLite(tb testing.TB) string {
	tb.Helper()
	dsn := sqliteDSN(tb.TempDir())
	db, err := sql.Open(driverSQLite, dsn)
	if err == nil {
		err = errors.Join(db.PingContext(tb.Context()), db.Close())
	}
	if err != nil {
		tb.Fatalf("dbtest: making a file of SQLite: %v", err)
	}
	return dsn
}

// sqliteDSN returns the DSN of a database file in dir that several connections can use at once:
//
//   - Foreign keys are enforced, which is not the default of SQLite.
//   - Readers do not block the writer (WAL), and a writer waits for another writer.
//   - A transaction takes the write lock when it begins. A transaction that takes the lock later,
//     after a read, can fail at once with SQLITE_BUSY, whatever the timeout is.
//   - Nothing waits for the disk. A process that is killed loses nothing, only a machine that fails would.
func sqliteDSN(dir string) string {
	path := filepath.ToSlash(filepath.Join(dir, "test.db"))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter: file:///C:/...
	}
	query := url.Values{
		"_foreign_keys": {"1"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"OFF"},
		"_busy_timeout": {"10000"},
		"_txlock":       {"immediate"},
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	return file.String()
}
