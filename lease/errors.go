package lease

import (
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// An error here is temporary if a retry may help: no ID was issued, and the cause goes away as time
// passes. An error that wraps a temporary one and one that is not, is not temporary.
var (
	// ErrNoFreeNode is wrapped by [*NoFreeNodeError], which [Acquire] returns when every number
	// that it may take is held. It is temporary: the error says when the first number falls free.
	ErrNoFreeNode = errs.Passing("lease: no free node")

	// ErrNodeHeld is wrapped by [*NodeHeldError], which [Acquire] returns when exactly one number is
	// wanted and another tenure keeps extending it. It is temporary: the number falls free when its
	// holder ends.
	ErrNodeHeld = errs.Passing("lease: node is held")

	// ErrTenureTaken is returned by generator.New for a [Keeper] that already serves another
	// generator. It is [generator.ErrTenureTaken]. It is not temporary.
	ErrTenureTaken = generator.ErrTenureTaken

	// ErrClockSkew is returned when the local clock and that of the store are further apart than
	// [MaxSkew]. Then no number is taken and no window is extended. It is temporary: a time service
	// corrects the clock, or somebody does. Then the keeper goes on without a restart.
	ErrClockSkew = errs.Passing("lease: clocks too far apart")

	// ErrLayoutMismatch is returned when the store's records belong to another layout. It is not
	// temporary.
	ErrLayoutMismatch = errs.Lasting("lease: another layout in the store")

	// ErrInvalidRecord is returned when the store holds something that no keeper wrote, and by
	// [CheckSwap]. It is not temporary: somebody has to correct or remove the record.
	ErrInvalidRecord = errs.Lasting("lease: invalid record")

	// ErrInvalidOption is returned by [Acquire] for an option that is out of range. It is not
	// temporary.
	ErrInvalidOption = errs.Lasting("lease: invalid option")

	// ErrStore is returned when the store failed or did not answer in time. It wraps what the store
	// returned. It is temporary.
	ErrStore = errs.Passing("lease: store failed")

	// ErrClosed is returned by a [Keeper] after Close, and by a store that was closed. For errors.Is
	// it is snowflakeplugin.ErrClosed too. It is not temporary.
	ErrClosed = errs.Closed("lease: closed")
)

// failed wraps what the store returned.
func failed(what string, err error) error { return fmt.Errorf("%w: %s: %w", ErrStore, what, err) }

// stamp prints an instant the one way that messages use.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
