package issue

import (
	"context"
	"sync"
	"time"
)

// limited is a context that ends with the request or at a time, whichever comes first. It is what
// [context.WithDeadline] returns, but it starts a timer only when somebody begins to wait. Nearly all IDs
// are there at once, so nearly no request needs it.
type limited struct {
	context.Context // of the request

	deadline time.Time

	mu      sync.Mutex
	waiting context.Context    // with the timer; nil before the first wait; guarded by mu
	cancel  context.CancelFunc // of waiting; guarded by mu
}

// withLimit returns a context that ends after d, and what has to be called when it is not used any more.
func withLimit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	l := &limited{Context: ctx, deadline: time.Now().Add(d)}
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(l.deadline) {
		l.deadline = earlier
	}
	return l, l.end
}

func (l *limited) Deadline() (time.Time, bool) { return l.deadline, true }

// Done starts the timer.
func (l *limited) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting, l.cancel = context.WithDeadline(l.Context, l.deadline)
	}
	return l.waiting.Done()
}

func (l *limited) Err() error {
	l.mu.Lock()
	waiting := l.waiting
	l.mu.Unlock()
	if waiting != nil {
		return waiting.Err()
	}
	if err := l.Context.Err(); err != nil {
		return err
	}
	if time.Now().Before(l.deadline) {
		return nil
	}
	<-l.Done() // from now on it is the same error, even if the request is canceled later
	return l.Err()
}

// end stops the timer, and releases those who still wait.
func (l *limited) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}
