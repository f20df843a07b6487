package gormlease

import "github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"

// None of these errors is temporary: a retry does not help until somebody has changed the program or
// the database. A database that does not answer, or takes no writes, is [lease.ErrStore] instead, and a
// store that was closed returns [lease.ErrClosed]. They are the errors of the same names in package sqllease.
var (
	// ErrTable is returned by [New] when the table does not exist and cannot be created, cannot be used,
	// or is stored in a way that may lose rows, such as an UNLOGGED table of PostgreSQL or one of the
	// engine MEMORY. The message has the statement that creates it or changes it. The database's own error
	// is wrapped too.
	ErrTable = sqllease.ErrTable

	// ErrDatabase is returned by [New] and [DDL] for a handle that no store can work on: its dialect
	// is not supported, there is no pool of database/sql behind it, or a pooler in between does not
	// fit the driver's settings.
	ErrDatabase = sqllease.ErrDatabase

	// ErrOption is returned by [New] and [DDL] for an option that is invalid.
	ErrOption = sqllease.ErrOption
)
