package lease

import (
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

var (
	// ErrNoFreeNode is wrapped by [*NoFreeNodeError], which [Acquire] returns when every number
	// that it may take is held.
	ErrNoFreeNode = errors.New("lease: no free node")

	// ErrNodeHeld is wrapped by [*NodeHeldError], which [Acquire] returns when exactly one number
	// is wanted and another tenure goes on holding it.
	ErrNodeHeld = errors.New("lease: node is held")

	// ErrTenureTaken is returned by generator.New for a [Keeper] that serves another generator
	// already. It is [generator.ErrTenureTaken].
	ErrTenureTaken = generator.ErrTenureTaken

	// ErrClockSkew is returned when the local clock and that of the store are further apart than
	// [MaxSkew]. No number is taken and no window extended then.
	ErrClockSkew = errors.New("lease: clocks too far apart")

	// ErrLayoutMismatch is returned when the store's records belong to another layout.
	ErrLayoutMismatch = errors.New("lease: another layout in the store")

	// ErrInvalidRecord is returned when the store holds something that no keeper wrote, and by
	// [CheckSwap].
	ErrInvalidRecord = errors.New("lease: invalid record")

	// ErrInvalidOption is returned by [Acquire] for an option out of its range.
	ErrInvalidOption = errors.New("lease: invalid option")

	// ErrStore is returned when the store did not answer or failed; what it said is wrapped too.
	ErrStore = errors.New("lease: store failed")

	// ErrClosed is returned by a [Keeper] after Close.
	ErrClosed = errors.New("lease: closed")
)
