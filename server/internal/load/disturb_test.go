package load_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/client"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// ledger notes every ID, and the calls.
type ledger struct {
	mu      sync.Mutex
	seen    map[int64]bool
	twice   int
	failed  int
	first   error // of the failures
	longest time.Duration
}

func (l *ledger) note(ids []int64, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed++
		if l.first == nil {
			l.first = err
		}
		return
	}
	l.longest = max(l.longest, took)
	for _, id := range ids {
		if l.seen[id] {
			l.twice++
		}
		l.seen[id] = true
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// ask asks with several callers until the function that it returns is called.
func ask(t *testing.T, callers int, addresses ...string) (l *ledger, stop func()) {
	t.Helper()
	c, err := client.New(addresses, client.WithBlock(1, 100), client.WithMaxWait(servers.Patience))
	if err != nil {
		t.Fatal(err)
	}
	l = &ledger{seen: make(map[int64]bool)}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for range callers {
		working.Go(func() {
			ids := make([]int64, 3)
			for ctx.Err() == nil {
				began := time.Now()
				err := c.Fill(context.Background(), ids) //nolint:contextcheck // a call under way may end
				l.note(ids, time.Since(began), err)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return l, func() {
		cancel()
		working.Wait()
		c.Close()
	}
}

// progress waits until some hundred more IDs have come.
func (l *ledger) progress(t *testing.T) {
	t.Helper()
	const more = 300
	before := l.count()
	servers.Eventually(t, func() error {
		if l.count() < before+more {
			return errors.New("no more IDs come")
		}
		return nil
	})
}

func postgres(t testing.TB) string {
	t.Helper()
	for _, target := range dbtest.Targets() {
		if target.Name == "postgres" {
			return target.DSN(t)
		}
	}
	t.Fatal("there is no such target")
	return ""
}

// One of two replicas is killed again and again, and comes back.
func TestNoCallFailsAndNoIDRepeatsWhenReplicasAreKilled(t *testing.T) {
	t.Parallel()
	_, long := length(t)
	rounds := 2
	if long {
		rounds = 10
	}
	dsn := postgres(t)
	replicas := []*replica{newReplica(t, dsn), newReplica(t, dsn)}
	l, stop := ask(t, 8, "http://"+replicas[0].http, "http://"+replicas[1].http)
	defer stop()
	for round := range rounds {
		l.progress(t)
		victim := replicas[round%2]
		victim.kill()
		l.progress(t)
		victim.start()
		victim.awaitReady()
	}
	stop()
	t.Logf("kill -9 of a replica, %d times: %d IDs, %d failed calls, %d IDs twice, longest wait %v",
		rounds, len(l.seen), l.failed, l.twice, l.longest.Round(time.Microsecond))
	if l.failed != 0 || l.twice != 0 {
		t.Errorf("%d calls failed, %d IDs came twice: %v", l.failed, l.twice, l.first)
	}
}

// All replicas are replaced, one after the other, as an upgrade does it.
func TestNoCallFailsDuringARollingRestart(t *testing.T) {
	t.Parallel()
	length(t)
	dsn := postgres(t)
	replicas := []*replica{newReplica(t, dsn), newReplica(t, dsn), newReplica(t, dsn)}
	l, stop := ask(t, 8, "http://"+replicas[0].http, "http://"+replicas[1].http, "http://"+replicas[2].http)
	defer stop()
	for _, r := range replicas {
		l.progress(t)
		if err := r.terminate(); err != nil {
			t.Errorf("a replica ended with %v", err)
		}
		r.start()
		r.awaitReady()
	}
	l.progress(t)
	stop()
	t.Logf("rolling restart of 3 replicas: %d IDs, %d failed calls, %d IDs twice, longest wait %v",
		len(l.seen), l.failed, l.twice, l.longest.Round(time.Microsecond))
	if l.failed != 0 || l.twice != 0 {
		t.Errorf("%d calls failed, %d IDs came twice: %v", l.failed, l.twice, l.first)
	}
}

// A paused replica answers nothing and refuses nothing. The client passes it over.
func TestAPausedReplicaIsPassedOver(t *testing.T) {
	t.Parallel()
	length(t)
	dsn := postgres(t)
	replicas := []*replica{newReplica(t, dsn), newReplica(t, dsn)}
	l, stop := ask(t, 4, "http://"+replicas[0].http, "http://"+replicas[1].http)
	defer stop()
	for _, r := range replicas {
		l.progress(t)
		r.pause(true)
		l.progress(t)
		r.pause(false)
	}
	l.progress(t)
	stop()
	if l.failed != 0 || l.twice != 0 {
		t.Errorf("%d calls failed, %d IDs came twice: %v", l.failed, l.twice, l.first)
	}
}
