package dbtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm/logger"
)

// A Recorder is a GORM logger that keeps every SQL statement of the handles that use it. The
// statements contain their values and are kept in the order in which they ended. Statements of a
// DryRun are kept as well. The zero value is ready to use. A Recorder is safe for concurrent use
// and must not be copied.
type Recorder struct {
	mu         sync.Mutex
	statements []string // guarded by mu
}

var _ logger.Interface = (*Recorder)(nil)

// NewRecorder returns an empty Recorder.
func NewRecorder() *Recorder { return &Recorder{} }

// Reset forgets everything recorded so far.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = nil
}

// Statements returns a copy of what was recorded since the last Reset.
func (r *Recorder) Statements() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.statements)
}

// Inserts returns the recorded statements that begin with INSERT.
func (r *Recorder) Inserts() []string {
	return slices.DeleteFunc(r.Statements(), func(sql string) bool {
		verb, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
		return !strings.EqualFold(verb, "INSERT")
	})
}

// LogMode returns the Recorder itself, because it records at every level.
func (r *Recorder) LogMode(logger.LogLevel) logger.Interface { return r }

// Info does nothing, because a message is not a statement.
func (r *Recorder) Info(context.Context, string, ...any) {}

// Warn does nothing, like Info.
func (r *Recorder) Warn(context.Context, string, ...any) {}

// Error does nothing, because a test sees errors as return values.
func (r *Recorder) Error(context.Context, string, ...any) {}

// Trace records one statement, whether it succeeded or not.
func (r *Recorder) Trace(_ context.Context, _ time.Time, fc func() (string, int64), _ error) {
	sql, _ := fc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, sql)
}
