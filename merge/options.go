package merge

import (
	"context"
	"database/sql"
	"log/slog"
)

// Opener opens the database that a DSN of the plan names, with a driver that the caller has registered:
// usually it is one call of sql.Open behind a look at the DSN. The merge closes what it gets.
type Opener func(ctx context.Context, dsn string) (*sql.DB, error)

type options struct {
	open         Opener
	log          *slog.Logger
	onProgress   func(Progress)
	hooks        Hooks
	chunkRows    int
	maxConflicts int // how many conflicts a report lists for each table
	portable     bool
	lock         *Lock              // what was found before; nil if nothing is known
	atFailpoint  func(point string) // set by tests only
	// distort is set by tests only: it changes rows on their way to the target.
	distort func(table string, columns []string, rows [][]any) [][]any
}

// An Option changes how a merge works. Those of this package are the only ones.
type Option func(*options)

// WithOpener sets the function that opens the DSNs of the plan. It is required.
func WithOpener(open Opener) Option { return func(o *options) { o.open = open } }

// WithLogger sets the logger. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithProgress sets a function that is called about ten times a second while a method works, from the
// goroutine of that method.
func WithProgress(fn func(Progress)) Option { return func(o *options) { o.onProgress = fn } }

// WithHooks sets functions that Run calls.
func WithHooks(h Hooks) Option { return func(o *options) { o.hooks = h } }

// WithChunk sets how many rows are written in one transaction, 10,000 by default, or fewer if they have
// more than 8 MB and go through this program. Values below 1 change nothing. The journal is only the same
// after a resumed run as after an uninterrupted one if both use the same value. The rows are the same in
// any case.
func WithChunk(rows int) Option {
	return func(o *options) {
		if rows > 0 {
			o.chunkRows = rows
		}
	}
}

// WithLock sets what was found in the servers when the plan was written. Check and Run then refuse columns
// that are new, or of which the data says something else now. Check looks at all of them again, and Run only
// into tables in which rows have come or gone. Without a lock both look at everything, unless no key changes.
func WithLock(l *Lock) Option { return func(o *options) { o.lock = l } }

// WithMaxConflicts sets how many conflicts of each table a report lists, 10,000 by default. All conflicts are
// counted, and all renames are in the table merge_renames.
func WithMaxConflicts(n int) Option { return func(o *options) { o.maxConflicts = n } }

// WithPortableCopy makes all rows go through this program, even between databases of one kind. It is for
// tests, and for servers on which the faster ways do not work.
func WithPortableCopy() Option { return func(o *options) { o.portable = true } }

// Hooks are called by Run, for work outside of the databases. When a hook fails, the run ends, and the
// next run calls it again. So hooks must tolerate being called twice.
type Hooks struct {
	// AfterTable is called when all rows of a table are copied. A resumed run calls it for tables that were
	// complete before, too.
	AfterTable func(ctx context.Context, table string) error
	// AfterMerge is called before the run is marked as done.
	AfterMerge func(ctx context.Context) error
}
