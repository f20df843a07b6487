package issue_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
)

// pace is a source that makes an ID in a microsecond, and stands still while stalled says so.
type pace struct {
	place   chan struct{} // one after the other, as the ticks of a layout
	made    atomic.Int64
	stalled atomic.Bool
}

func (p *pace) Fill(ctx context.Context, ids []int64) error {
	if p.stalled.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	p.place <- struct{}{}
	defer func() { <-p.place }()
	time.Sleep(time.Duration(len(ids)) * time.Microsecond)
	for i := range ids {
		ids[i] = p.made.Add(1)
	}
	return nil
}

// free is a client.
type free struct{ _ byte }

func newDesk(source issue.Source, maxTime time.Duration) *issue.Desk {
	return issue.New(map[string]issue.Source{issue.DefaultSource: source}, 1_000_000, maxTime, metrics.New(),
		slog.New(slog.DiscardHandler))
}

// A client with a hundred requests for very many IDs has its turn, and so has one that asks for some.
func TestConnectionsAreServedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, some, few = 100_000, 1000, 1
		source := &pace{place: make(chan struct{}, 1)}
		desk := newDesk(source, time.Hour)
		greedy, modest := new(free), new(free)
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() { _, _ = desk.Issue(ctx, issue.Caller{Client: greedy}, "", many) })
		}
		synctest.Wait()
		for name, count := range map[string]int64{"some": some, "few": few} {
			before := source.made.Load()
			ids, err := desk.Issue(ctx, issue.Caller{Client: modest}, "", count)
			if err != nil || int64(len(ids)) != count {
				t.Fatalf("%s: %d IDs, %v", name, len(ids), err)
			}
			for i := range ids[1:] {
				if ids[i] >= ids[i+1] {
					t.Fatalf("%s: the IDs of an answer do not increase", name)
				}
			}
			// Both have a portion each, and one was under way.
			if others := source.made.Load() - before - count; others > 3*some {
				t.Errorf("while one client got %d IDs, the other one got %d", count, others)
			}
		}
		cancel()
		asking.Wait()
		if _, err := desk.Issue(t.Context(), issue.Caller{Client: modest}, "", some); err != nil {
			t.Errorf("after all of it: %v", err)
		}
	})
}

// A source that stands still is no reason to wait for a turn: every client learns it in its own time.
func TestASlowTurnHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clients, maxTime = 50, 5 * time.Second
		source := &pace{place: make(chan struct{}, 1)}
		source.stalled.Store(true)
		desk := newDesk(source, maxTime)
		var asking sync.WaitGroup
		began := time.Now()
		for range clients {
			asking.Go(func() {
				var fault *issue.Fault
				_, err := desk.Issue(t.Context(), issue.Caller{Client: new(free)}, "", 1000)
				if !errors.As(err, &fault) || fault.Kind != issue.Deadline || time.Since(began) != maxTime {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		}
		time.Sleep(clients * 20 * time.Millisecond)
		synctest.Wait()
		source.stalled.Store(false) // those that wait are still stuck, and nobody waits for them
		now := time.Now()
		if _, err := desk.Issue(t.Context(), issue.Caller{Client: new(free)}, "", 1000); err != nil || time.Since(now) > time.Second/10 {
			t.Errorf("another client: %v after %v", err, time.Since(now))
		}
		asking.Wait()
	})
}
