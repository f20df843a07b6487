package issue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
)

func TestTheLimitOfARequestIsAContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parent, limit time.Duration // of the request and of the service
		end           time.Duration // when the client gives up
		look          bool          // at Done before anything ends
		want          error
		after         time.Duration
	}{
		"time of the service":                {parent: time.Hour, limit: time.Second, end: time.Hour, want: context.DeadlineExceeded, after: time.Second},
		"time of the service, waiting":       {parent: time.Hour, limit: time.Second, end: time.Hour, look: true, want: context.DeadlineExceeded, after: time.Second},
		"time of the request":                {parent: time.Second, limit: time.Hour, end: time.Hour, want: context.DeadlineExceeded, after: time.Second},
		"time of the request, waiting":       {parent: time.Second, limit: time.Hour, end: time.Hour, look: true, want: context.DeadlineExceeded, after: time.Second},
		"the client gives up":                {parent: time.Hour, limit: time.Hour, end: time.Second, want: context.Canceled, after: time.Second},
		"the client gives up while it waits": {parent: time.Hour, limit: time.Hour, end: time.Second, look: true, want: context.Canceled, after: time.Second},
		"no time at all":                     {parent: time.Hour, limit: 0, end: time.Hour, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithTimeout(t.Context(), c.parent)
				defer cancel()
				l, end := issue.WithLimit(parent, c.limit)
				defer end()
				if deadline, ok := l.Deadline(); !ok || time.Until(deadline) != min(c.parent, c.limit) {
					t.Errorf("the deadline is %v, %t", deadline, ok)
				}
				time.AfterFunc(c.end, cancel)
				if c.after > 0 {
					if c.look {
						l.Done()
					}
					time.Sleep(c.after - time.Nanosecond)
					if err := l.Err(); err != nil {
						t.Fatalf("it has ended too early: %v", err)
					}
					if c.look {
						select {
						case <-l.Done():
							t.Fatal("Done is closed too early")
						default:
						}
					}
					time.Sleep(time.Nanosecond)
				}
				synctest.Wait()
				if err := l.Err(); !errors.Is(err, c.want) {
					t.Errorf("it ended with %v, want %v", err, c.want)
				}
				cancel() // what has ended once keeps its reason
				select {
				case <-l.Done():
				default:
					t.Error("Err says that it has ended, and Done does not")
				}
				if err := l.Err(); !errors.Is(err, c.want) {
					t.Errorf("the reason became %v", err)
				}
			})
		})
	}
}

func TestTheEndOfARequestReleasesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, end := issue.WithLimit(t.Context(), time.Hour)
		released := make(chan error)
		go func() {
			<-l.Done()
			released <- l.Err()
		}()
		synctest.Wait()
		end()
		if err := <-released; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestAnIDThatIsThereAtOnceNeedsNoTimer(t *testing.T) {
	t.Parallel()
	l, end := issue.WithLimit(t.Context(), time.Hour)
	defer end()
	if l.Err() != nil || issue.Timed(l) {
		t.Error("looking at Err has started a timer")
	}
}
