package sqlconn

import (
	"errors"
	"fmt"
	"strings"
)

// Causes that the errors of drivers do not name, with what to do.
var (
	ErrPooler = errors.New("a connection pooler such as PgBouncer in transaction mode gives each transaction " +
		"another connection, on which the statements that pgx has prepared are not known; add " +
		"default_query_exec_mode=exec (or simple_protocol) to the DSN")
	ErrFull = errors.New("the disk of the database is full, or the database has its greatest size: make room")
)

// Translate wraps an error of a driver with the cause, where one of those above is known. Each driver of
// SQLite has a type of its own, and that of MySQL tells the code in the text, so the text tells.
func Translate(err error) error {
	// Statements that a driver has prepared, and that are there already or are gone.
	const duplicate, unknown = "42P05", "26000"
	const diskFull = "53100"
	const disk, table = "Error 1021 ", "Error 1114 " // of MySQL
	code, said := stateOf(err), err.Error()
	switch {
	case code == duplicate || code == unknown:
		return fmt.Errorf("%w: %w", ErrPooler, err)
	case code == diskFull, strings.Contains(said, "disk is full"), strings.Contains(said, disk),
		strings.Contains(said, table):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
