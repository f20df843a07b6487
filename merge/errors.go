package merge

import (
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// The errors of this package.
var (
	// ErrPlan is returned by Load, Parse, Open and Draft when a plan is not valid. The message lists all
	// faults.
	ErrPlan = errors.New("merge: invalid plan")

	// ErrOpen is returned by Open and Draft when a database cannot be opened or is of an unknown kind. No
	// message holds a DSN.
	ErrOpen = sqldb.ErrOpen

	// ErrUndecided is returned by Run when Check finds problems. The report lists them.
	ErrUndecided = errors.New("merge: something is undecided")

	// ErrLocked is returned by Run when another run works on the target.
	ErrLocked = sqldb.ErrLocked

	// ErrOtherPlan is returned by Run and Verify when the target belongs to a merge by another plan.
	ErrOtherPlan = errors.New("merge: the target was begun with another plan")

	// ErrSourceChanged is returned by Run when a source was written to after the decisions were taken.
	ErrSourceChanged = errors.New("merge: a source was written to")

	// ErrRow is returned by Run when the target refuses a row.
	ErrRow = errors.New("merge: a row was refused")

	// ErrBalance is returned by Run when the target lacks other rows than the plan gives up.
	ErrBalance = errors.New("merge: the plan gives up another number of rows")

	// ErrNotRun is returned by Verify when the target has seen no complete run.
	ErrNotRun = errors.New("merge: there is no complete run")

	// ErrDatabase is returned when a statement fails. The driver's error is wrapped.
	ErrDatabase = sqldb.ErrDatabase
)
