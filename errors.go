package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
)

// The errors of the plugin. Those of the generator, such as generator.ErrClockBehind, come through
// wrapped, and so does the error of a Source; gorm.ErrInvalidData is wrapped where a map cannot
// take an ID. See also ErrInvalidID.
var (
	// ErrNoNode is returned by Initialize and NextID when no option says where IDs come from.
	ErrNoNode = errors.New("snowflakeplugin: no node number")

	// ErrOptions is returned by Initialize, Prepare and NextID when the options given to New
	// contradict each other or are out of range. All faults are reported at once.
	ErrOptions = errors.New("snowflakeplugin: invalid options")

	// ErrCallbacks is returned by Initialize when GORM refuses to put the plugin's callbacks in
	// order, because a callback of the application asked for a place that leaves none.
	ErrCallbacks = errors.New("snowflakeplugin: callbacks cannot be ordered")

	// ErrInvalidField is returned by Prepare, and by the first create of a model, when a field
	// is tagged snowflake but cannot hold an ID, or when the tag's value is not a boolean.
	ErrInvalidField = errors.New("snowflakeplugin: invalid snowflake field")

	// ErrNotInUse is returned by a create that needs an ID after db.Use of the plugin has
	// failed on that database, instead of storing 0.
	ErrNotInUse = errors.New("snowflakeplugin: the plugin is not in use")

	// ErrSource is returned by a create when a Source handed out a number that is no ID.
	ErrSource = errors.New("snowflakeplugin: source gave no id")

	// ErrClosed is returned when an ID is needed after Close.
	ErrClosed = errors.New("snowflakeplugin: closed")
)

// ended is the error of a context that is done: its error, and its cause where that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
