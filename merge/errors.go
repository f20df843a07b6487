package merge

import "errors"

// The errors of this package.
var (
	// ErrPlan is returned by Load, Parse, Open and Draft when a plan cannot be meant as it is written. All
	// faults are reported at once.
	ErrPlan = errors.New("merge: invalid plan")

	// ErrOpen is returned by Open and Draft when a database cannot be opened or is of an unknown kind. No
	// message holds a DSN.
	ErrOpen = errors.New("merge: database cannot be opened")

	// ErrUndecided is returned by Run when Check finds problems. The report holds them.
	ErrUndecided = errors.New("merge: something is undecided")

	// ErrLocked is returned by Run when another run works on the target.
	ErrLocked = errors.New("merge: another run works on this target")

	// ErrOtherPlan is returned by Run and Verify when the target belongs to a merge by another plan.
	ErrOtherPlan = errors.New("merge: the target was begun with another plan")

	// ErrSourceChanged is returned by Run when a source was written to since the decisions were taken.
	ErrSourceChanged = errors.New("merge: a source was written to")

	// ErrRow is returned by Run when the target refuses a row.
	ErrRow = errors.New("merge: a row was refused")

	// ErrNotRun is returned by Verify when the target has seen no complete run.
	ErrNotRun = errors.New("merge: there is no complete run")

	// ErrDatabase is returned when a statement fails. The driver's error is wrapped.
	ErrDatabase = errors.New("merge: statement failed")
)
