package lease

import (
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Status is a snapshot of a keeper. See [Keeper.Status].
type Status struct {
	// Window is the present window with its node. Its Until is zero if the keeper has none, because
	// the node was lost or the keeper is closed.
	Window generator.Window
	// Owner is the name under which the store knows the keeper.
	Owner string
	// Overdue says that the window has ended by the local clock, so no ID can be made.
	Overdue bool
	// Closed says that Close was called.
	Closed bool
	// Failure is the error of the last attempt to extend the window, nil if that succeeded.
	Failure error
	// FailingSince is when the first of the failures in a row began, zero if the last attempt
	// succeeded.
	FailingSince time.Time
}

// Status returns how the keeper is. It does not ask the store.
func (k *Keeper) Status() Status {
	s := Status{Window: *k.window.Load()}
	s.Overdue = !s.Window.Until.IsZero() && !k.now().Before(s.Window.Until)
	k.mu.Lock()
	defer k.mu.Unlock()
	s.Owner, s.Closed, s.Failure = k.owner, k.closed, k.failure
	if s.Failure != nil {
		s.FailingSince = k.since
	}
	return s
}
