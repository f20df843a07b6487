package shardmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

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

// Error names the shards that failed, those with the same error together. Of the panics with the same value
// the first one shows its stack.
func (e *PartialError) Error() string {
	shards := e.failedShards()
	byText := map[string][]string{}
	var order []int // the first shard with each text
	for _, shard := range shards {
		text := e.text(shard)
		if byText[text] == nil {
			order = append(order, shard)
		}
		byText[text] = append(byText[text], fmt.Sprint(shard))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "snowflakeplugin: %d of %d shards failed", len(shards), len(shards)+len(e.OK))
	for _, first := range order {
		fmt.Fprintf(&b, "; shard %s: %s", strings.Join(byText[e.text(first)], ", "), e.Failed[first].Error())
	}
	return b.String()
}

// text is the error of a shard, for a panic without the stack, which differs from goroutine to goroutine.
func (e *PartialError) text(shard int) string {
	var p *panicError
	if errors.As(e.Failed[shard], &p) {
		return p.what()
	}
	return e.Failed[shard].Error()
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

// ErrUnfinished is the outcome of every call before it has returned. What ends a goroutine in between, as
// FailNow of a test does, leaves it behind.
var ErrUnfinished = errors.New("snowflakeplugin: the function ended its goroutine before it returned " +
	"(runtime.Goexit, which FailNow of a test calls), so it counts as failed")

// Scatter calls do for each of some groups of numbers, up to maxConcurrent at a time. When ctx ends it does
// not start any more calls. Its error is a *PartialError about the numbers.
func Scatter(ctx context.Context, groups [][]int, do func(i int) error) error {
	failures := make([]error, len(groups))
	running := make(chan struct{}, maxConcurrent)
	var calls sync.WaitGroup
	for i := range groups {
		running <- struct{}{}
		if ctx.Err() != nil {
			failures[i] = errs.Ended(ctx)
			<-running
			continue
		}
		failures[i] = ErrUnfinished
		calls.Go(func() {
			defer func() { <-running }()
			failures[i] = RecoverPanic(func() error { return do(i) })
		})
	}
	calls.Wait()
	return PartialOf(groups, failures)
}

// Singles are groups of one number each, from 0 to n-1.
func Singles(n int) [][]int {
	groups := make([][]int, n)
	for i := range groups {
		groups[i] = []int{i}
	}
	return groups
}

// panicError is a panic of the application's function. On a goroutine other than the caller's the panic
// itself would end the program.
type panicError struct {
	value any
	stack []byte
}

// Error says what the panic was, and then where it was.
func (e *panicError) Error() string { return fmt.Sprintf("%s\n%s", e.what(), e.stack) }

func (e *panicError) what() string { return fmt.Sprintf("snowflakeplugin: panic: %v", e.value) }

// Unwrap returns what the function panicked with, if that is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// RecoverPanic turns a panic of do into an error that has its stack.
func RecoverPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return do()
}

// PartialOf makes one error of those of all groups, or nil if all of them are nil.
func PartialOf(groups [][]int, failures []error) error {
	if errors.Join(failures...) == nil {
		return nil
	}
	e := &PartialError{Failed: map[int]error{}}
	for i, err := range failures {
		for _, number := range groups[i] {
			if err == nil {
				e.OK = append(e.OK, number)
			} else {
				e.Failed[number] = err
			}
		}
	}
	slices.Sort(e.OK)
	return e
}
