package issue

import "context"

// WithLimit is for tests.
var WithLimit = withLimit

// Timed says whether a context of WithLimit has started its timer.
func Timed(ctx context.Context) bool {
	l := ctx.(*limited)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting != nil
}
