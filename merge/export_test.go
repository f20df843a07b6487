package merge

import "context"

// WithFault calls fn at the points of a run at which a process may die.
func WithFault(fn func(point string)) Option { return func(o *options) { o.fault = fn } }

// NewName is what names are made by.
func NewName(format, old string, server, attempt int64, limit int) (string, bool) {
	return newName(format, old, server, attempt, limit)
}

// WriteToSource tries what a merge must never do.
func (m *Merge) WriteToSource(ctx context.Context, statement string) error {
	return m.servers[0].exec(ctx, statement)
}
