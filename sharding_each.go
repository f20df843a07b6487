package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gorm.io/gorm"
)

// mostAtOnce is how many shards, and how many databases, are asked at the same time. It bounds the
// connections that one call of a method takes.
const mostAtOnce = 8

// PartialError says which shards did what was asked, and which did not. It wraps [ErrPartial] and
// the errors of the shards.
type PartialError struct {
	// OK lists the shards that succeeded, in ascending order.
	OK []int
	// Failed has the error of each of the others.
	Failed map[int]error
}

// Error names the shards that failed, with the first error of each kind.
func (e *PartialError) Error() string {
	shards := e.failed()
	said := map[string][]string{}
	var order []string
	for _, shard := range shards {
		text := e.Failed[shard].Error()
		if said[text] == nil {
			order = append(order, text)
		}
		said[text] = append(said[text], fmt.Sprint(shard))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d of %d shards failed", ErrPartial, len(shards), len(shards)+len(e.OK))
	for _, text := range order {
		fmt.Fprintf(&b, "; shard %s: %s", strings.Join(said[text], ", "), text)
	}
	return b.String()
}

// Unwrap returns [ErrPartial] and the errors of the shards, by their numbers.
func (e *PartialError) Unwrap() []error {
	errs := []error{ErrPartial}
	for _, shard := range e.failed() {
		errs = append(errs, e.Failed[shard])
	}
	return errs
}

func (e *PartialError) failed() []int { return slices.Sorted(maps.Keys(e.Failed)) }

// Each calls fn for every shard of the model, with a handle that is bound to the model there, and
// for one marked by [Broadcast] for every database, whose index is the shard then. Up to eight calls
// run at the same time, so what fn shares between them has to be safe for that. When a call fails
// the others go on.
//
// It returns an error wrapping [ErrNotSharded], or a [*PartialError] that says which shards failed.
// When ctx ends, the shards that had not begun are among those.
func (r *Router) Each(ctx context.Context, model any, fn func(shard int, tx *gorm.DB) error) error {
	m, err := r.modelOf(model)
	if err != nil {
		return err
	}
	handle := func(shard int) *gorm.DB { return r.handleOn(ctx, shard, m.value) }
	n := r.shards
	if m.broadcast {
		n = len(r.dbs)
		handle = func(database int) *gorm.DB {
			return r.handle(ctx, r.dbs[database], route{all: true}, m.value)
		}
	}
	return scatter(ctx, n, func(shard int) error {
		if !m.broadcast {
			if err := r.checkLocked(ctx, shard); err != nil {
				return err
			}
		}
		return fn(shard, handle(shard))
	})
}

// scatter calls do for the numbers from 0 to n-1, several at a time.
func scatter(ctx context.Context, n int, do func(i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, mostAtOnce) {
		workers.Go(func() {
			for i := range next {
				if errs[i] = ctx.Err(); errs[i] != nil {
					errs[i] = ended(ctx)
					continue
				}
				errs[i] = guarded(func() error { return do(i) })
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return partialOf(errs)
}

// guarded turns a panic of the application's function into an error: on a goroutine that is not the
// caller's it would end the program.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("snowflakeplugin: panic: %v", p)
		}
	}()
	return do()
}

// partialOf makes one error of those of all shards; nil if there is none.
func partialOf(errs []error) error {
	if errors.Join(errs...) == nil {
		return nil
	}
	e := &PartialError{Failed: map[int]error{}}
	for i, err := range errs {
		if err == nil {
			e.OK = append(e.OK, i)
		} else {
			e.Failed[i] = err
		}
	}
	return e
}
