package snowflakeplugin

import (
	"context"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// The errors of the plugin. The errors of the generator, such as generator.ErrClockBehind, of the
// lease, such as lease.ErrStore, and of a Source come through wrapped. gorm.ErrInvalidData is wrapped
// where a map cannot take an ID. See also ErrInvalidID.
var (
	// ErrNoNode is returned by Initialize when no node number could be leased, and by NextID when the
	// number is leased from the database of db.Use and db.Use was not called yet. The error of
	// package lease or gormlease is wrapped as well.
	ErrNoNode = errs.ErrNoNode

	// ErrAuthority is returned by Initialize when the IDs of the database come from somewhere else: from
	// another store of leases, or from numbers that are given by hand while this plugin leases its number,
	// or the other way round. The error names both and the remedy. It is also returned when the database
	// cannot note where its IDs come from; then the error has the statement that makes the table, or says
	// that the connections have selected no database, or that the transaction of the create keeps the note out.
	ErrAuthority = errs.ErrAuthority

	// ErrOptions is returned by Initialize, Prepare and NextID when the options given to New
	// contradict each other or are out of range. All faults are reported at once.
	ErrOptions = errs.ErrOptions

	// ErrCallbacks is returned by Initialize when GORM cannot put the plugin's callbacks in order,
	// because a callback of the application asked for a place that leaves none for them.
	ErrCallbacks = errs.ErrCallbacks

	// ErrInvalidField is returned by Prepare, and by every create of a model, when a field
	// is tagged snowflake but cannot hold an ID, or when its tag is almost right and so asks for none: its
	// value is not a boolean, its key is in capitals or among the settings of gorm, or it is on an embedded
	// struct. It is also returned for a foreign key that cannot hold the ID to which it refers, and for a field
	// of type ID whose json tag has the option ",string". The error names the model, the field and the remedy.
	ErrInvalidField = errs.ErrInvalidField

	// ErrNotInUse is returned by a create that needs an ID after db.Use of the plugin has
	// failed on that database, instead of storing 0.
	ErrNotInUse = errs.ErrNotInUse

	// ErrZeroKey is returned by a create that would store 0 in a primary key of type [ID], whether or
	// not the database uses the plugin. The error names the model, the field and the remedy.
	// [ID.CreateClauses] lists what only a database with the plugin refuses.
	ErrZeroKey = errs.ErrZeroKey

	// ErrContested is returned by a create when the database already has a row with the key that was just made
	// for a new row: somebody else makes the same IDs. The new row was not stored, and the row that is there
	// was not changed. The error names the table and the key, wraps gorm.ErrDuplicatedKey as well, and says
	// what to do. GORM's own transaction is rolled back; without one, the error says what is stored.
	ErrContested = errs.ErrContested

	// ErrSource is returned by a create when a Source handed out a number that is no ID, and when an
	// ID is needed on a certain shard, which a Source cannot choose.
	ErrSource = errs.ErrSource

	// ErrUnavailable is for the errors of a Source that has no ID for the moment, and that time heals.
	// A Source wraps it, so [Retryable] knows. The client of the service does so.
	ErrUnavailable = errs.ErrUnavailable

	// ErrNoParent is returned by a create when the tag snowflake:"like:Field" colocates a row with
	// another one, and that field holds no ID.
	ErrNoParent = errs.ErrNoParent

	// ErrSharding is returned by NewRouter for an invalid configuration, and by [Router.Check] for tables
	// that differ from their models.
	ErrSharding = errs.ErrSharding

	// ErrNotSharded is returned by a Router for a model that it does not know.
	ErrNotSharded = errs.ErrNotSharded

	// ErrNotRouted is returned by a statement on a sharded model that did not come from the router: its
	// base table has no rows. A write to a broadcast model in one database alone is refused with it too.
	ErrNotRouted = errs.ErrNotRouted

	// ErrCrossShard is returned when a row of another shard is wanted where only those of one can be
	// had: by a handle that is bound to a shard, or inside a transaction of one.
	ErrCrossShard = errs.ErrCrossShard

	// ErrShardMap is returned when a shard was split, joined or moved, and what came late cannot be repeated: a
	// statement in a transaction, your own SQL, or a handle for the whole of the shard. Nothing was stored. Get
	// a handle from the router again, and repeat. It is also returned while a cutover was interrupted.
	ErrShardMap = errs.ErrShardMap

	// ErrClosed is returned when an ID is needed after Close. errors.Is tells it for everything in the
	// module that was closed: lease.ErrClosed and generator.ErrSealed are ErrClosed as well.
	ErrClosed = errs.ErrClosed
)

// Retryable reports whether the caller may try again what failed with err, because no ID could be had
// for the moment, and time heals the cause: the clock has to catch up, the store of the leases has to
// answer again, a node number has to fall free, or a Source has wrapped [ErrUnavailable]. Without an ID
// nothing is written, so a statement in a transaction, which GORM begins by default, has left nothing
// behind. Every other error is false, and so are the errors of the database: what their driver says has
// to decide.
//
// Wait between tries, for a second or so. docs/errors.md has the answer for every error of the module.
func Retryable(err error) bool {
	switch { // each sentinel says which it is, and a lasting cause outweighs
	case errors.Is(err, errs.ErrLasting):
		return false
	case errors.Is(err, errs.ErrPassing):
		return true
	case errors.Is(err, ErrUnavailable):
		return !errors.Is(err, context.Canceled) // the caller may also have given up
	}
	// The caller's deadline ended the wait for an ID. With a new deadline it may try again.
	canceled := errors.Is(err, generator.ErrCanceled) || errors.Is(err, segment.ErrCanceled)
	return canceled && errors.Is(err, context.DeadlineExceeded)
}
