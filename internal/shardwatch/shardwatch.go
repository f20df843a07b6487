// Package shardwatch tells a plugin of GORM how each statement of a router has ended, and on which shard. The
// modules that show the shards to Prometheus and to OpenTelemetry share it.
package shardwatch

import (
	"context"
	"errors"
	"strconv"
	"time"

	"gorm.io/gorm"
)

// Several is the shard of a statement over several shards.
const Several = "several"

// A Router tells the shard of a statement, which is below 0 for several shards.
type Router interface {
	ShardOf(tx *gorm.DB) (shard int, routed bool)
}

// A Statement is one that has ended.
type Statement struct {
	// Context is that of the statement.
	Context context.Context //nolint:containedctx // it ends with the report
	// Shard is the number of the shard as a text, or [Several].
	Shard string
	// Took is the time of the callbacks of GORM.
	Took time.Duration
	// Rows is how many rows were read or written. It is 0 if the statement failed.
	Rows int64
	// Failed says that the statement has an error. A row that is not found is none.
	Failed bool
}

// Register adds callbacks to a database that report every statement of the router under the names name and
// name_after. It returns the errors of GORM.
func Register(db *gorm.DB, name string, router Router, report func(Statement)) error {
	w := &watcher{router: router, report: report}
	after := name + "_after"
	callbacks := db.Callback()
	return errors.Join(
		callbacks.Create().Before("*").Register(name, w.begin),
		callbacks.Create().After("*").Register(after, w.end),
		callbacks.Query().Before("*").Register(name, w.begin),
		callbacks.Query().After("*").Register(after, w.end),
		callbacks.Update().Before("*").Register(name, w.begin),
		callbacks.Update().After("*").Register(after, w.end),
		callbacks.Delete().Before("*").Register(name, w.begin),
		callbacks.Delete().After("*").Register(after, w.end),
		callbacks.Row().Before("*").Register(name, w.begin),
		callbacks.Row().After("*").Register(after, w.end),
		callbacks.Raw().Before("*").Register(name, w.begin),
		callbacks.Raw().After("*").Register(after, w.end),
	)
}

type watcher struct {
	router Router
	report func(Statement)
}

// begun is the key of the time at which a statement began, in the settings of the statement.
type begun struct{ watcher *watcher }

func (w *watcher) begin(tx *gorm.DB) {
	if !tx.DryRun {
		tx.Statement.Settings.Store(begun{w}, time.Now())
	}
}

func (w *watcher) end(tx *gorm.DB) {
	// A statement that runs once more would find the time of the first one.
	value, _ := tx.Statement.Settings.LoadAndDelete(begun{w})
	began, ok := value.(time.Time)
	if !ok {
		return
	}
	shard, routed := w.router.ShardOf(tx)
	if !routed {
		return
	}
	s := Statement{Context: tx.Statement.Context, Shard: Several, Took: time.Since(began)}
	if shard >= 0 {
		s.Shard = strconv.Itoa(shard)
	}
	switch {
	case tx.Error == nil:
		s.Rows = max(tx.RowsAffected, 0) // -1 for open rows
	case !errors.Is(tx.Error, gorm.ErrRecordNotFound):
		s.Failed = true
	}
	w.report(s)
}
