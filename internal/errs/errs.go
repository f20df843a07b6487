// Package errs has the sentinel errors of the module, so that every package can wrap them. They are
// documented where they are exported.
package errs

import (
	"context"
	"errors"
	"fmt"
)

// The sentinels of the module, under the names that the root package gives them.
var (
	ErrNoNode       = errors.New("snowflakeplugin: no node number")
	ErrOptions      = errors.New("snowflakeplugin: invalid options")
	ErrCallbacks    = errors.New("snowflakeplugin: callbacks cannot be ordered")
	ErrInvalidField = errors.New("snowflakeplugin: invalid snowflake field")
	ErrNotInUse     = errors.New("snowflakeplugin: the plugin is not in use")
	ErrSource       = errors.New("snowflakeplugin: source gave no id")
	ErrNoParent     = errors.New("snowflakeplugin: parent ID is not set")
	ErrSharding     = errors.New("snowflakeplugin: invalid sharding")
	ErrNotSharded   = errors.New("snowflakeplugin: model is not of this router")
	ErrNotRouted    = errors.New("snowflakeplugin: statement is not routed to a shard")
	ErrCrossShard   = errors.New("snowflakeplugin: row is on another shard")
	ErrShardMap     = errors.New("snowflakeplugin: no valid shard map")
	ErrClosed       = errors.New("snowflakeplugin: closed")
	ErrZeroKey      = errors.New("snowflakeplugin: key is not set")
	ErrContested    = errors.New("snowflakeplugin: contested")
	ErrInvalidID    = errors.New("snowflakeplugin: invalid id")
	ErrAuthority    = errors.New("snowflakeplugin: another authority")
	ErrUnavailable  = errors.New("snowflakeplugin: no id for the moment")
)

// Ended is the error of a context that is done: its error, and its cause where that says more.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Kind returns an error with a text and an identity of its own, for which errors.Is finds the kind as well.
func Kind(text string, kind error) error { return &kindError{text, kind} }

// Closed returns the "closed" error of a package, which is of the kind ErrClosed.
func Closed(text string) error { return Kind(text, ErrClosed) }

// Unavailable returns the error of a package that time heals, which is of the kind ErrUnavailable.
func Unavailable(text string) error { return Kind(text, ErrUnavailable) }

type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }

// Is adds the kind to what the error is; errors.Is itself compares identities.
func (e *kindError) Is(target error) bool { return errors.Is(e.kind, target) }
