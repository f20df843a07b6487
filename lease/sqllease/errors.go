package sqllease

import (
	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// None of these errors is temporary: a retry does not help until somebody has changed the program or
// the database. A database that does not answer, or takes no writes, is [lease.ErrStore] instead, and a
// store that was closed returns [lease.ErrClosed].
var (
	// ErrTable is returned by [New] when the table does not exist and cannot be created, cannot be used,
	// or is stored in a way that may lose rows, such as an UNLOGGED table of PostgreSQL or one of the
	// engine MEMORY. The message has the statement that creates it or changes it. The database's own error
	// is wrapped too.
	ErrTable = errs.Lasting("sqllease: table cannot be used")

	// ErrDatabase is returned by [New] and [DDL] for a database that no store can work on: its dialect
	// is not supported, or a pooler in between does not fit the driver's settings.
	ErrDatabase = authority.ErrDatabase

	// ErrOption is returned by [New] and [DDL] for an option that is invalid.
	ErrOption = errs.Lasting("sqllease: invalid option")
)
