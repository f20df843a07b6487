package gormlease

import "errors"

var (
	// ErrTable is returned by [New] when the table is not there and cannot be made, or cannot be
	// used. The message has the statement that makes it; what the database said is wrapped too.
	ErrTable = errors.New("gormlease: table cannot be used")

	// ErrDatabase is returned by [New] and [DDL] for a handle that no store can work on: a dialect
	// that is not supported, or one without a pool of database/sql.
	ErrDatabase = errors.New("gormlease: database cannot be used")

	// ErrOption is returned by [New] and [DDL] for an option that makes no sense.
	ErrOption = errors.New("gormlease: invalid option")
)
