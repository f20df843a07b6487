package router

import (
	"context"
	"slices"
	"sync"

	"gorm.io/gorm"
)

// maxSideBySide is how many tables of a database a step of a resharding works on at the same time.
const maxSideBySide = 4

// sideBySide is how many connections of a database a step may take at the same time. It leaves one of a
// limited pool to the rest of the program, such as the lease of the node. SQLite has one writer anyway.
func sideBySide(db *gorm.DB) int {
	pool, err := db.DB()
	if err != nil || db.Name() == dialectSQLite {
		return 1 // The pool belongs to the application and may not be a sql.DB.
	}
	if most := pool.Stats().MaxOpenConnections; most > 0 {
		return max(1, min(maxSideBySide, most-1))
	}
	return maxSideBySide
}

// turns lets a bounded number of goroutines work in each database of a topology.
type turns []chan struct{}

func (t *topology) newTurns() turns {
	var all turns
	for _, db := range t.dbs {
		all = append(all, make(chan struct{}, sideBySide(db)))
	}
	return all
}

// take waits for a turn in each of the databases, and returns a function that gives them back. All
// goroutines take them in the same order, so none waits for another that waits for it.
func (t turns) take(ctx context.Context, databases ...int) (giveBack func(), err error) {
	slices.Sort(databases)
	databases = slices.Compact(databases)
	taken := 0
	giveBack = func() {
		for _, at := range databases[:taken] {
			<-t[at]
		}
	}
	for _, at := range databases {
		select {
		case t[at] <- struct{}{}:
			taken++
		case <-ctx.Done():
			giveBack()
			return nil, ctx.Err()
		}
	}
	return giveBack, nil
}

// eachInTurn calls do for the numbers below n on goroutines of their own, as far as the databases that each
// works in allow it. It calls then for one number after the other, on the goroutine of the caller, as soon as
// do has returned for it and for those before it. After an error of do it cancels the rest, and returns the
// error of the least number when all of them have ended.
func (t *topology) eachInTurn(
	ctx context.Context, n int, databases func(i int) []int, do func(ctx context.Context, i int) error,
	then func(i int),
) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel() // which comes first
	all := t.newTurns()
	ended := make([]chan error, n)
	for i := range n {
		ended[i] = make(chan error, 1)
		workers.Go(func() {
			err := errUnfinished
			defer func() { ended[i] <- err }()
			giveBack, refused := all.take(ctx, databases(i)...)
			if refused != nil {
				err = refused
				return
			}
			defer giveBack()
			err = recoverPanic(func() error { return do(ctx, i) })
		})
	}
	for i := range n {
		if err := <-ended[i]; err != nil {
			return err
		}
		if then != nil {
			then(i)
		}
	}
	return nil
}
