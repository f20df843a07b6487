package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// maxConcurrent is how many shards, or databases, are asked at the same time. It bounds the connections
// that one call of a method takes.
const maxConcurrent = 8

// PartialError says which shards succeeded, and why the others failed.
type PartialError struct {
	OK     []int
	Failed map[int]error
}

// Error names the shards that failed, those with the same error together.
func (e *PartialError) Error() string {
	shards := e.failedShards()
	byText := map[string][]string{}
	var order []string
	for _, shard := range shards {
		text := e.Failed[shard].Error()
		if byText[text] == nil {
			order = append(order, text)
		}
		byText[text] = append(byText[text], fmt.Sprint(shard))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "snowflakeplugin: %d of %d shards failed", len(shards), len(shards)+len(e.OK))
	for _, text := range order {
		fmt.Fprintf(&b, "; shard %s: %s", strings.Join(byText[text], ", "), text)
	}
	return b.String()
}

// Unwrap returns the errors of the shards in the order of their numbers.
func (e *PartialError) Unwrap() []error {
	var failures []error
	for _, shard := range e.failedShards() {
		failures = append(failures, e.Failed[shard])
	}
	return failures
}

func (e *PartialError) failedShards() []int { return slices.Sorted(maps.Keys(e.Failed)) }

// Each gives fn a handle for every shard, or for every database if the model is a broadcast one.
func (r *Router) Each(ctx context.Context, model any, fn func(shard int, tx *gorm.DB) error) error {
	m, err := r.modelOf(model)
	if err != nil {
		return err
	}
	if m.broadcast {
		return scatter(ctx, len(r.dbs), func(database int) error {
			return fn(database, r.handle(ctx, r.dbs[database], route{all: true}, m.value))
		})
	}
	return scatter(ctx, r.shards, func(shard int) error {
		if err := r.checkLocked(ctx, shard); err != nil {
			return err
		}
		return fn(shard, r.handleOn(ctx, shard, m.value))
	})
}

// scatter calls do for the numbers from 0 to n-1, up to maxConcurrent at a time. When ctx ends it does
// not start any more calls. Its error is a *PartialError about these numbers.
func scatter(ctx context.Context, n int, do func(i int) error) error {
	failures := make([]error, n)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, maxConcurrent) {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					failures[i] = errs.Ended(ctx)
					continue
				}
				failures[i] = recoverPanic(func() error { return do(i) })
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return partialError(failures)
}

// recoverPanic turns a panic of the application's function into an error. On a goroutine other than the
// caller's a panic would end the program.
func recoverPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("snowflakeplugin: panic: %v", p)
		}
	}()
	return do()
}

// partialError makes one error of those of all shards, or nil if all of them are nil.
func partialError(failures []error) error {
	if errors.Join(failures...) == nil {
		return nil
	}
	e := &PartialError{Failed: map[int]error{}}
	for i, err := range failures {
		if err == nil {
			e.OK = append(e.OK, i)
		} else {
			e.Failed[i] = err
		}
	}
	return e
}
