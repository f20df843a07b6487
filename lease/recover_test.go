package lease_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// maxRecovery is how long callers may have to wait after the store answers again.
const maxRecovery = 500 * time.Millisecond

// outages are the ways in which a store may be away.
func outages() map[string]spoiler { return map[string]spoiler{"refuses": down, "is silent": silent} }

// replicas are keepers of one store, each with a caller that asks for IDs all the time.
type replicas struct {
	n     int
	store *table
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu   sync.Mutex
	back map[int]time.Time // since when each replica has had IDs again; guarded by mu
}

// startReplicas starts n replicas on a store with room for them.
func startReplicas(t *testing.T, n int, canBeProbed bool) *replicas {
	t.Helper()
	s := newTable()
	var store lease.Store = quick{s}
	if canBeProbed {
		store = probed{quick{s}}
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &replicas{n: n, store: s, stop: stop, back: map[int]time.Time{}}
	for i := range n {
		k := acquire(t, store, seeded(uint64(i)))
		g := newGenerator(t, k)
		r.tasks.Go(func() { r.draw(ctx, i, g) })
		time.Sleep(7 * time.Millisecond)
	}
	return r
}

// draw asks for an ID every 50 ms and notes when IDs come again after a failure.
func (r *replicas) draw(ctx context.Context, i int, g *generator.Generator) {
	for failed := false; ctx.Err() == nil; _ = sleepFor(ctx, 50*time.Millisecond) {
		began := time.Now()
		_, err := g.Next(ctx)
		failed = failed || err != nil || time.Since(began) > 100*time.Millisecond
		if failed && err == nil {
			r.mu.Lock()
			r.back[i] = time.Now()
			r.mu.Unlock()
			failed = false
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// returned returns after how long the replicas had IDs again, the quickest first.
func (r *replicas) returned(answers time.Time) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var took []time.Duration
	for _, at := range r.back {
		took = append(took, at.Sub(answers))
	}
	slices.Sort(took)
	return took
}

// busiest returns the most requests in any one second.
func busiest(asked []request) (most int) {
	first := 0
	for i, r := range asked {
		for r.at.Sub(asked[first].at) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Three replicas and two hundred (twenty-five in tier one) have IDs again half a second after the store answers, and none of
// them asks the store more than nine times a second. Where the store was silent and cannot be probed that
// holds for most of them: one attempt in some is patient, in case the store has become slow.
func TestIDsComeBackHalfASecondAfterTheStoreDoes(t *testing.T) {
	many := nightly.Pick(25, 200)
	for _, n := range []int{3, many} {
		for how, spoil := range outages() {
			t.Run(fmt.Sprintf("%d replicas, the store %s", n, how), func(t *testing.T) {
				bubble(t, func(t *testing.T) { outlast(t, startReplicas(t, n, true), spoil, n) })
			})
		}
	}
	t.Run(fmt.Sprint(many, " replicas, the store is silent and cannot be probed"), func(t *testing.T) {
		bubble(t, func(t *testing.T) { outlast(t, startReplicas(t, many, false), silent, many*2/3) })
	})
}

// outlast lets some replicas go through outages, after which so many of them have IDs again in time.
func outlast(t *testing.T, r *replicas, spoil spoiler, inTime int) {
	t.Helper()
	outages := []time.Duration{20 * time.Second, 33 * time.Second, 40 * time.Second}
	if r.n > 3 {
		outages = outages[1:2] // many replicas take their time
	}
	for _, outage := range outages {
		r.store.forget()
		r.store.spoilWith(spoil)
		time.Sleep(outage)
		away := busiest(r.store.asked())
		r.mu.Lock()
		clear(r.back)
		r.mu.Unlock()

		r.store.forget()
		r.store.spoilWith(nil)
		answers := time.Now()
		time.Sleep(span/3 + maxRecovery)
		took := r.returned(answers)
		back := busiest(r.store.asked())
		if len(took) != r.n {
			t.Fatalf("after %v, %d of %d replicas have IDs again", outage, len(took), r.n)
		}
		t.Logf("after %v: half of them have IDs after %v, all after %v; requests in a second: "+
			"%d while it was away, %d then", outage, took[len(took)/2], took[len(took)-1], away, back)
		if most := took[min(inTime, len(took))-1]; most > maxRecovery {
			t.Errorf("after %v, IDs came back after %v, want at most %v", outage, most, maxRecovery)
		}
		if away > 9*r.n || back > 9*r.n {
			t.Errorf("%d and %d requests in a second, want at most %d", away, back, 9*r.n)
		}
	}
	r.stop()
	r.tasks.Wait()
}

// The schedule for callers that wait must not reach those that nobody waits for.
func TestAStoreThatIsAwayIsAskedRarelyWhileNobodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		mustNext(t, newGenerator(t, k))
		s.spoilWith(down)
		time.Sleep(2 * span)
		s.forget()
		time.Sleep(time.Minute)
		if n := len(s.asked()); n > 30 {
			t.Errorf("the store was asked %d times in a minute in which nobody waited", n)
		}
	})
}

// Nobody waited while the store was away, so the keeper is in one of its long pauses.
func TestTheFirstCallerAfterAnOutageDoesNotWaitForTheSchedule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for how, spoil := range outages() {
			s := newTable()
			k := acquire(t, quick{s})
			g := newGenerator(t, k)
			mustNext(t, g)
			s.spoilWith(spoil)
			time.Sleep(3*span + 123*time.Millisecond)
			s.spoilWith(nil)
			began := time.Now()
			mustNext(t, g)
			if took := time.Since(began); took > maxRecovery {
				t.Errorf("the store %s: the first ID took %v", how, took)
			}
			mustClose(t, k)
		}
	})
}

// A store may have become so slow that no hurried attempt succeeds. It gets its time now and then, even
// if it answers quickly to all that changes nothing.
func TestAStoreThatHasBecomeSlowExtendsAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for slows, isSlow := range map[string]func(request) bool{
			"everything":            func(request) bool { return true },
			"what changes a record": request.writes,
			"all but probes":        func(r request) bool { return r.kind != probes },
		} {
			for _, takes := range []time.Duration{800 * time.Millisecond, 2 * time.Second} {
				for seed := range uint64(20) {
					s := newTable()
					k := acquire(t, probed{quick{s}}, seeded(seed))
					g := newGenerator(t, k, generator.WithMaxWait(time.Hour))
					s.spoilWith(down)
					time.Sleep(2 * span)
					s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
						if isSlow(r) {
							if err := sleepFor(ctx, takes); err != nil {
								return false, err
							}
						}
						return serve(), nil
					})
					began := time.Now()
					mustNext(t, g)
					if took := time.Since(began); took > 5*span {
						t.Errorf("%s takes %v, seed %d: an ID took %v", slows, takes, seed, took)
					}
					s.spoilWith(nil)
					mustClose(t, k)
				}
			}
		}
	})
}

// A store that was slow once must not be waited for as long for ever.
func TestAfterASlowAttemptTheKeeperIsSoonAsQuickAsBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s}, seeded(1))
		g := newGenerator(t, k)
		s.spoilWith(func(_ context.Context, _ request, serve func() bool) (bool, error) {
			time.Sleep(2 * time.Second)
			return serve(), nil
		})
		eventually(t, "a slow extension", span/2, func() bool { return k.Extensions() == 1 })
		s.spoilWith(nil)
		time.Sleep(10 * span)
		s.spoilWith(silent)
		time.Sleep(2 * span)
		s.forget()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			_, _ = g.Next(ctx)
		}
		if n := len(s.asked()); n < 15 {
			t.Errorf("%d attempts in 10 s, in each of which it waited as long as for the slow one", n)
		}
	})
}

// What only a person can change is looked at once a second, however many wait.
func TestAClockThatIsWrongIsNotAskedForAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s})
		g := newGenerator(t, k)
		s.clock.Step(time.Minute)
		time.Sleep(2 * span)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		s.forget()
		for ctx.Err() == nil {
			_, _ = g.Next(ctx)
		}
		cancel()
		if n := len(s.asked()); n < 10 || n > 45 { // a swap within that is refused, and a look at the clock
			t.Errorf("the store was asked %d times in 10 s", n)
		}
		s.clock.Step(-time.Minute)
		began := time.Now()
		if err := k.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the extension took %v", took)
		}
	})
}
