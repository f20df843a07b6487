// Package resharding changes the shards of a router while programs read and write them. The unit is one
// shard: a class of IDs, given by a residue and a modulus. At the first start of a router with 16 shards
// these are the classes 0 of 16 to 15 of 16. [Split] divides a class into parts, [Join] is the way back, and
// [Move] brings a class to another database. [Resize] does that for all shards.
//
//	stopped, err := resharding.Split(ctx, router, resharding.Class{Residue: 3, Modulus: 16}, 2)
//	...
//	err = resharding.Clean(ctx, router) // drops the old tables
//
// The rows go to tables of a new generation, whose names no old table ever had, such as orders_03_g1 and
// orders_19_g1. While they are copied, programs read and write the old tables, and triggers on these list the
// keys of the rows that are written, whoever writes them. The cutover stops the writes to this one shard,
// copies the rows that are still listed, gives the old tables other names, and records the new map. All
// running programs follow by themselves: a statement that comes late finds no table, on which the router
// reads the map again and repeats it. A statement in a transaction is not repeated, and its error wraps
// [snowflakeplugin.ErrShardMap]. Programs that start later need no other configuration, because
// ShardingConfig.Shards is the number of the first start, and the databases record what has changed since.
//
// After an error, or the end of the process, [Resume] goes on where the work has stopped, in the same or
// another process, and [Drop] gives up what has not cut over. There is no undo after the cutover: [Join] is
// the way back.
package resharding

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/reshard"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// Class is a part of all IDs: those with id & MaxSequence % Modulus = Residue.
type Class struct{ Residue, Modulus int }

// Settings say how a shard is changed. The zero value is what the functions of the package use.
type Settings struct {
	// Chunk is how many rows are copied in one transaction. The default is 1,000.
	Chunk int
	// RowsPerSecond is how many rows are copied in a second at the most. 0 is no limit.
	RowsPerSecond int
	// Budget is how long a cutover tries to lock the tables, 50 milliseconds at a time. The default is one
	// second. If a transaction is in the way for longer, the error names it, and the call can be repeated. On
	// SQLite, the other steps wait as long for another writer, beside the busy timeout of the connection.
	Budget time.Duration
	// Progress, if it is set, is called before anything is made, and after each chunk.
	Progress func(Progress)
}

// Progress is how far a change is.
type Progress struct {
	Step      string // check, copy, drain or compare
	Table     string
	Rows, Of  int64 // done, and in all, as far as they are known
	PerSecond float64
	Left      time.Duration
	// Bytes is the space that the copies will take, in the step check, which comes before anything is made. The
	// catalog of the database estimates it. On SQLite it is the size of the file, and the copies take less.
	Bytes int64
}

// Split divides the shard of a class into factor parts. The part i has the residue of the class plus i times
// its modulus. The parts go to the databases with these indexes, or all of them stay where the shard is if
// none are given. It returns how long writes to the shard were stopped.
//
// The modulus of the parts must divide the size of the layout's sequence, and the number over which the
// plugin spreads its IDs. The error wraps [snowflakeplugin.ErrSharding], or is that of a database.
func Split(
	ctx context.Context, r *snowflakeplugin.Router, class Class, factor int, databases ...int,
) (stopped time.Duration, err error) {
	return Settings{}.Split(ctx, r, class, factor, databases...)
}

// Join makes one shard in a database of all those that have the IDs of a class together. They must have one
// modulus.
func Join(
	ctx context.Context, r *snowflakeplugin.Router, class Class, database int,
) (stopped time.Duration, err error) {
	return Settings{}.Join(ctx, r, class, database)
}

// Move brings the shard of a class to another database of the router, which must be of the same kind.
func Move(
	ctx context.Context, r *snowflakeplugin.Router, class Class, database int,
) (stopped time.Duration, err error) {
	return Settings{}.Move(ctx, r, class, database)
}

// Resize splits or joins all shards, one after the other, until all of them have a modulus. Every shard stays
// in its database, and joined ones come to that of the first. It returns the longest of the stops.
func Resize(ctx context.Context, r *snowflakeplugin.Router, modulus int) (stopped time.Duration, err error) {
	return Settings{}.Resize(ctx, r, modulus)
}

// Resume goes on with everything that was interrupted.
func Resume(ctx context.Context, r *snowflakeplugin.Router) error { return Settings{}.Resume(ctx, r) }

// Split is the function [Split] with settings.
func (s Settings) Split(
	ctx context.Context, r *snowflakeplugin.Router, class Class, factor int, databases ...int,
) (stopped time.Duration, err error) {
	return s.change(ctx, r, func(t *shardmap.Topology) (shardmap.Change, error) {
		return t.Split(shardmap.Class(class), factor, databases...)
	})
}

// Join is the function [Join] with settings.
func (s Settings) Join(
	ctx context.Context, r *snowflakeplugin.Router, class Class, database int,
) (stopped time.Duration, err error) {
	return s.change(ctx, r, func(t *shardmap.Topology) (shardmap.Change, error) {
		return t.Join(shardmap.Class(class), database)
	})
}

// Move is the function [Move] with settings.
func (s Settings) Move(
	ctx context.Context, r *snowflakeplugin.Router, class Class, database int,
) (stopped time.Duration, err error) {
	return s.change(ctx, r, func(t *shardmap.Topology) (shardmap.Change, error) {
		return t.Move(shardmap.Class(class), database)
	})
}

// Resize is the function [Resize] with settings.
func (s Settings) Resize(
	ctx context.Context, r *snowflakeplugin.Router, modulus int,
) (stopped time.Duration, err error) {
	if err := s.Resume(ctx, r); err != nil {
		return 0, err
	}
	for {
		current, err := r.Inner().Adopt(ctx)
		if err != nil {
			return stopped, err
		}
		entries := current.Entries()
		i := slices.IndexFunc(entries, func(e shardmap.Entry) bool { return e.Modulus != modulus })
		if i < 0 {
			return stopped, nil
		}
		var once time.Duration
		switch e := entries[i]; {
		case modulus < 1 || e.Modulus%modulus != 0 && modulus%e.Modulus != 0:
			return stopped, fmt.Errorf("%w: the modulus %d of shard %s is neither a multiple nor a divisor of %d",
				errs.ErrSharding, e.Modulus, e.Class, modulus)
		case e.Modulus < modulus:
			once, err = s.Split(ctx, r, Class(e.Class), modulus/e.Modulus)
		default:
			once, err = s.Join(ctx, r, Class{e.Residue % modulus, modulus}, e.Database)
		}
		if stopped = max(stopped, once); err != nil {
			return stopped, err
		}
	}
}

// Resume is the function [Resume] with settings.
func (s Settings) Resume(ctx context.Context, r *snowflakeplugin.Router) error {
	return each(ctx, r, func(current *router.Router, c shardmap.Change) error {
		_, err := s.run(ctx, current, c)
		return err
	})
}

// each calls do for every resharding, until one fails.
func each(
	ctx context.Context, r *snowflakeplugin.Router, do func(*router.Router, shardmap.Change) error,
) error {
	current, err := r.Inner().Adopt(ctx)
	if err != nil {
		return err
	}
	changes, err := shardmap.Registry{Topology: current.Topology}.Changes(ctx)
	for _, c := range changes {
		if err == nil {
			err = do(current, c)
		}
	}
	return err
}

// Drop gives up everything that has not cut over, and removes what it has made.
func Drop(ctx context.Context, r *snowflakeplugin.Router) error {
	return end(ctx, r, false, (*reshard.Job).Drop)
}

// Clean drops the old tables of everything that has cut over. It refuses to drop one to which somebody has
// written after that under its new name.
func Clean(ctx context.Context, r *snowflakeplugin.Router) error {
	return end(ctx, r, true, (*reshard.Job).Clean)
}

// endBudget is how long the end of a resharding tries to get a lock of SQLite. It stops nobody meanwhile.
const endBudget = 10 * time.Second

// end ends all reshardings that have cut over, or all that have not, and forgets them.
func end(
	ctx context.Context, r *snowflakeplugin.Router, over bool, do func(*reshard.Job, context.Context) error,
) error {
	return each(ctx, r, func(current *router.Router, c shardmap.Change) error {
		if c.IsOver() != over {
			return nil
		}
		return reshard.Patiently(ctx, endBudget, new(bool), func() error {
			if err := do(Settings{}.job(current, c), ctx); err != nil {
				return err
			}
			return c.Forget(ctx)
		})
	})
}

// change finds out what becomes of which entries, and does it.
func (s Settings) change(
	ctx context.Context, r *snowflakeplugin.Router, what func(t *shardmap.Topology) (shardmap.Change, error),
) (stopped time.Duration, err error) {
	current, err := r.Inner().Adopt(ctx)
	if err != nil {
		return 0, err
	}
	c, err := what(current.Topology)
	if err != nil {
		return 0, err
	}
	return s.run(ctx, current, c)
}

// run begins a resharding, or goes on with it.
func (s Settings) run(
	ctx context.Context, r *router.Router, c shardmap.Change,
) (stopped time.Duration, err error) {
	moved := false
	err = reshard.Patiently(ctx, s.Budget, &moved, func() error {
		begun, err := c.HasBegun(ctx)
		j := s.job(r, c)
		j.Progress = func(p reshard.Progress) {
			moved = moved || p.Step == "copy"
			if s.Progress != nil {
				s.Progress(Progress(p))
			}
		}
		if err == nil && !begun {
			if err = j.Check(ctx); err == nil {
				err = c.Begin(ctx)
			}
		}
		if err != nil {
			return err
		}
		if stopped, err = j.Run(ctx); err == nil {
			_, err = r.Adopt(ctx)
		}
		return err
	})
	return stopped, err
}

// job describes a resharding to the machine that does it.
func (s Settings) job(r *router.Router, c shardmap.Change) *reshard.Job {
	return &reshard.Job{
		Name: c.Name, Old: c.From, Fresh: c.To, Databases: r.Databases, Tables: c.TablesOn, Make: r.MakeTables,
		Mask: r.Mask, Map: c, Chunk: s.Chunk, RowsPerSecond: s.RowsPerSecond, Budget: s.Budget,
		Over: c.IsOver(),
	}
}
