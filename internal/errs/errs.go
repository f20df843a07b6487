// Package errs has the sentinel errors of the module, so that every package can wrap them. They are
// documented where they are exported.
package errs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The sentinels of the module, under the names that the root package gives them.
var (
	ErrNoNode       = errors.New("snowflakeplugin: no node number")
	ErrOptions      = Lasting("snowflakeplugin: invalid options")
	ErrCallbacks    = Lasting("snowflakeplugin: callbacks cannot be ordered")
	ErrInvalidField = Lasting("snowflakeplugin: invalid snowflake field")
	ErrNotInUse     = Lasting("snowflakeplugin: the plugin is not in use")
	ErrSource       = Lasting("snowflakeplugin: source gave no id")
	ErrNoParent     = Lasting("snowflakeplugin: parent ID is not set")
	ErrSharding     = Lasting("snowflakeplugin: invalid sharding")
	ErrNotSharded   = Lasting("snowflakeplugin: model is not of this router")
	ErrNotRouted    = Lasting("snowflakeplugin: statement is not routed to a shard")
	ErrCrossShard   = Lasting("snowflakeplugin: row is on another shard")
	ErrShardMap     = Lasting("snowflakeplugin: no valid shard map")
	ErrClosed       = Lasting("snowflakeplugin: closed")
	ErrZeroKey      = Lasting("snowflakeplugin: key is not set")
	ErrContested    = Lasting("snowflakeplugin: contested")
	ErrInvalidID    = Lasting("snowflakeplugin: invalid id")
	ErrAuthority    = Lasting("snowflakeplugin: another authority")
	ErrUnavailable  = errors.New("snowflakeplugin: no id for the moment")
)

// What a sentinel says of a repetition. One that is of neither kind leaves it to the error that it is
// wrapped with.
var (
	ErrLasting = errors.New("somebody has to act first")
	ErrPassing = errors.New("time heals it")
)

// Ended is the error of a context that is done: its error, and its cause where that says more.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// IsAny reports whether an error is one of several kinds.
func IsAny(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// Listed joins what errors have to name, up to ten of them.
func Listed[T any](all []T, separator string) string {
	const maxNamed = 10
	var named []string
	for _, one := range all[:min(len(all), maxNamed)] {
		named = append(named, fmt.Sprint(one))
	}
	text := strings.Join(named, separator)
	if more := len(all) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Options applies options to what they set, and returns all that is wrong with them. An option that is nil is
// an error of the kind wrong.
func Options[T any, O ~func(*T) error](set *T, options []O, wrong error) error {
	faults := make([]error, len(options))
	for i, apply := range options {
		if apply == nil {
			faults[i] = fmt.Errorf("%w: option %d is nil", wrong, i)
		} else {
			faults[i] = apply(set)
		}
	}
	return errors.Join(faults...)
}

// Option returns an option that sets something, or an error of the kind wrong if what it would set is faulty.
func Option[T any](set func(*T), faulty bool, wrong error, format string, args ...any) func(*T) error {
	return func(t *T) error {
		if faulty {
			return fmt.Errorf("%w: %s", wrong, fmt.Sprintf(format, args...))
		}
		set(t)
		return nil
	}
}

// Set returns an option that sets something, whatever it is.
func Set[T any](set func(*T)) func(*T) error { return Option(set, false, nil, "") }

// Kind returns an error with a text and an identity of its own, for which errors.Is finds the kind as well.
func Kind(text string, kind error) error { return &kindError{text, kind} }

// Lasting returns the error of a package that stays until somebody has acted.
func Lasting(text string) error { return Kind(text, ErrLasting) }

// Passing returns the error of a package that time heals.
func Passing(text string) error { return Kind(text, ErrPassing) }

// Closed returns the "closed" error of a package, which is of the kind ErrClosed.
func Closed(text string) error { return Kind(text, ErrClosed) }

// Unavailable returns the error of a source that time heals, which is of the kind ErrUnavailable.
func Unavailable(text string) error { return Kind(text, ErrUnavailable) }

type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }

// Unwrap adds the kind to what the error is; errors.Is itself compares identities.
func (e *kindError) Unwrap() error { return e.kind }
