package sqlconn

import (
	"errors"
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// Causes that the errors of drivers do not name, with what to do.
var (
	ErrPooler = errors.New("a connection pooler such as PgBouncer in transaction mode gives each transaction " +
		"another connection, on which the statements that pgx has prepared are not known; add " +
		"default_query_exec_mode=exec (or simple_protocol) to the DSN")
	ErrFull = errors.New("the disk of the database is full, or the database has its greatest size: make room")
)

// Translate wraps an error of a driver with the cause, where one of those above is known.
func Translate(err error) error {
	switch {
	case dialect.Unprepared(err):
		return fmt.Errorf("%w: %w", ErrPooler, err)
	case dialect.Full(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
