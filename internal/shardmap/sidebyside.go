package shardmap

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// maxSideBySide is how many tables of a database a step of a resharding works on at the same time.
const maxSideBySide = 4

// sideBySide is how many connections of a database a step may take at the same time. It leaves one of a
// limited pool to the rest of the program, such as the lease of the node. SQLite has one writer anyway.
func sideBySide(db *gorm.DB) int {
	pool, err := db.DB()
	if err != nil || db.Name() == dialect.SQLite {
		return 1 // The pool belongs to the application and may not be a sql.DB.
	}
	if most := pool.Stats().MaxOpenConnections; most > 0 {
		return max(1, min(maxSideBySide, most-1))
	}
	return maxSideBySide
}

// turns lets a bounded number of goroutines work in each database of a topology.
type turns []chan struct{}

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
