package merge

import "context"

// WithFailpoint calls fn at the points of a run at which a process may die.
func WithFailpoint(fn func(point string)) Option { return func(o *options) { o.failpoint = fn } }

// NewName is what names are made by.
func NewName(format, old string, server, attempt int64, limit int) (string, bool) {
	return newName(format, old, server, attempt, limit)
}

// WriteToSource tries what a merge must never do.
func (m *Merge) WriteToSource(ctx context.Context, statement string) error {
	return m.ws.servers[0].db.Exec(ctx, statement)
}

// WithDistortion changes rows on their way to the target, as a fault of the copying would.
func WithDistortion(fn func(table string, columns []string, rows [][]any) [][]any) Option {
	return func(o *options) { o.distort = fn }
}
