package dbtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm/logger"
)

// A Recorder is a logger for GORM that keeps the SQL sent through the handles it is set on, with
// the values in place, in the order in which the statements ended. What a DryRun only builds is
// kept too, as GORM reports it like the rest. The zero value is ready to use. A Recorder is safe
// for concurrent use and must not be copied.
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

// Inserts returns those statements that begin with INSERT.
func (r *Recorder) Inserts() []string {
	return slices.DeleteFunc(r.Statements(), func(sql string) bool {
		verb, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
		return !strings.EqualFold(verb, "INSERT")
	})
}

// LogMode returns the Recorder itself: it records at every level.
func (r *Recorder) LogMode(logger.LogLevel) logger.Interface { return r }

// Info does nothing: messages are not statements.
func (r *Recorder) Info(context.Context, string, ...any) {}

// Warn does nothing, like Info.
func (r *Recorder) Warn(context.Context, string, ...any) {}

// Error does nothing; errors reach the test as return values.
func (r *Recorder) Error(context.Context, string, ...any) {}

// Trace records one statement, whether it succeeded or not.
func (r *Recorder) Trace(_ context.Context, _ time.Time, fc func() (string, int64), _ error) {
	sql, _ := fc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, sql)
}
