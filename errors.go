package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
)

// The errors of the plugin. Those of the generator, such as generator.ErrClockBehind, and of the
// lease, such as lease.ErrStore, come through wrapped, and so does the error of a Source;
// gorm.ErrInvalidData is wrapped where a map cannot take an ID. See also ErrInvalidID.
var (
	// ErrNoNode is returned by Initialize when no node number could be leased, and by NextID when
	// it is to be leased from the database of db.Use, which was not called yet. The error of
	// package lease or gormlease is wrapped as well.
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

	// ErrNoParent is returned by a create when an ID is to lie on the shard of another row, by the tag
	// snowflake:"like:Field", and that field holds no ID.
	ErrNoParent = errors.New("snowflakeplugin: no row to be beside")

	// ErrSharding is returned by NewRouter for a configuration that cannot be.
	ErrSharding = errors.New("snowflakeplugin: invalid sharding")

	// ErrNotSharded is returned by a Router for a model that it does not know.
	ErrNotSharded = errors.New("snowflakeplugin: model is not of this router")

	// ErrNotRouted is returned by a statement on a sharded model that did not come from the router: its
	// base table has no rows. A write to a broadcast model in one database alone is refused with it too.
	ErrNotRouted = errors.New("snowflakeplugin: statement is not routed to a shard")

	// ErrCrossShard is returned when a row of another shard is wanted where only those of one can be
	// had: by a handle that is bound to a shard, or inside a transaction of one.
	ErrCrossShard = errors.New("snowflakeplugin: row is on another shard")

	// ErrMissing is wrapped by [*MissingError].
	ErrMissing = errors.New("snowflakeplugin: rows are missing")

	// ErrPartial is wrapped by [*PartialError].
	ErrPartial = errors.New("snowflakeplugin: not on all shards")

	// ErrDrift is wrapped by [*DriftError].
	ErrDrift = errors.New("snowflakeplugin: tables of shards are not what the models say")

	// ErrDifferent is wrapped by [*DifferenceError].
	ErrDifferent = errors.New("snowflakeplugin: copies differ")

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
