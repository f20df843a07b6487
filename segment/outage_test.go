package segment_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// disturbed is a store whose requests fail, take time, or lose their answers.
type disturbed struct {
	*segmenttest.Memory
	down   atomic.Bool // requests are not answered
	loses  atomic.Bool // requests are done, and their answers lost
	refuse atomic.Bool
}

var errDown = errors.New("the store is down")

func (d *disturbed) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	time.Sleep(time.Millisecond)
	switch {
	case d.refuse.Load():
		return 0, errDown
	case d.down.Load():
		<-ctx.Done()
		return 0, ctx.Err()
	}
	first, err := d.Memory.ClaimOn(ctx, name, n, t)
	if d.loses.Load() {
		return 0, errDown
	}
	return first, err
}

// A store that is silent for half of the horizon is not seen by anybody at a constant rate.
func TestAnOutageOfHalfAHorizonIsNotSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &disturbed{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithHorizon(time.Minute), segment.WithBlock(10, 100_000))
		next := func() {
			began := time.Now()
			if _, err := source.Next(t.Context()); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			if waited := time.Since(began); waited > time.Millisecond {
				t.Fatalf("a call waited %v", waited)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := source.Next(t.Context()); err != nil { // the first call waits for the first block
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < 10*time.Minute; {
			_, err := source.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for range 20 {
			store.down.Store(true)
			for began := time.Now(); time.Since(began) < 30*time.Second; {
				next()
			}
			store.down.Store(false)
			for began := time.Now(); time.Since(began) < 73*time.Second; {
				next()
			}
		}
		if s := source.Stats(); s.Lasts < 30*time.Second || s.Failures == 0 {
			t.Errorf("the stats are %+v", s)
		}
	})
}

func TestALongOutageEndsInErrExhaustedAndHealsByItself(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*disturbed, bool){
		"silent":  func(d *disturbed, on bool) { d.down.Store(on) },
		"refuses": func(d *disturbed, on bool) { d.refuse.Store(on) },
		"loses":   func(d *disturbed, on bool) { d.loses.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &disturbed{Memory: segmenttest.NewMemory()}
				source := newSource(t, store, segment.WithBlock(10, 10), segment.WithMaxWait(time.Second))
				var all []int64
				for range 15 {
					n, err := source.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, n)
				}
				synctest.Wait()
				set(store, true)
				began := time.Now()
				var exhausted *segment.ExhaustedError
				for exhausted == nil {
					n, err := source.Next(t.Context())
					if err != nil && !errors.As(err, &exhausted) {
						t.Fatal(err)
					}
					if err == nil {
						all = append(all, n)
					}
				}
				if waited := time.Since(began); waited < 900*time.Millisecond || waited > 3*time.Second ||
					exhausted.Name != "orders" || exhausted.Since.Before(began) {
					t.Errorf("after %v: %v", waited, exhausted)
				}
				if len(all) > 30 || source.Stats().FailingSince.IsZero() {
					t.Errorf("%d numbers came from two blocks of 10: %+v", len(all), source.Stats())
				}
				time.Sleep(3 * time.Second)
				set(store, false)
				healed := time.Now()
				n, err := source.Next(t.Context())
				if took := time.Since(healed); err != nil || took > 500*time.Millisecond {
					t.Errorf("%v after the store came back: %v", took, err)
				}
				if all = append(all, n); !slices.IsSorted(all) || len(slices.Compact(all)) != len(all) {
					t.Errorf("the numbers are %v", all)
				}
			})
		})
	}
}

// A claim that was sent long ago, while the store was silent, is lost. The first call that needs it does not
// give it more time.
func TestTheFirstCallDoesNotWaitForAClaimThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &disturbed{Memory: segmenttest.NewMemory()}
		source := newSource(t, store, segment.WithBlock(10, 10))
		must(t, source.Fill(t.Context(), make([]int64, 1)))
		time.Sleep(time.Second) // the next block is there
		store.down.Store(true)
		must(t, source.Fill(t.Context(), make([]int64, 10))) // so the next block is in use, and another is claimed
		time.Sleep(2 * time.Second)
		store.down.Store(false)
		time.Sleep(time.Second)
		began := time.Now()
		must(t, source.Fill(t.Context(), make([]int64, 10)))
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("the numbers came after %v", took)
		}
	})
}

// Many processes that a store has refused at the same moment do not ask it at the same moments for ever.
func TestSourcesThatAreRefusedTogetherDoNotStayTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes = 20
		store := &counted{Memory: segmenttest.NewMemory()}
		var callers sync.WaitGroup
		for range processes {
			source := newSource(t, store, segment.WithMaxWait(10*time.Second))
			callers.Go(func() {
				if _, err := source.Next(t.Context()); !errors.Is(err, segment.ErrExhausted) {
					t.Error(err)
				}
			})
			time.Sleep(time.Microsecond)
		}
		callers.Wait()
		slices.SortFunc(store.claims, time.Time.Compare)
		late := store.claims[len(store.claims)/2:]
		most := 0
		for i, first := range late {
			together := i
			for together < len(late) && late[together].Sub(first) < 10*time.Millisecond {
				together++
			}
			most = max(most, together-i)
		}
		if most > processes/2 {
			t.Errorf("%d of %d processes claim within 10 ms", most, processes)
		}
	})
}

// counted is a store that refuses all claims, and knows when they came.
type counted struct {
	*segmenttest.Memory
	mu     sync.Mutex
	claims []time.Time
}

func (c *counted) ClaimOn(context.Context, string, int64, segment.Terms) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims = append(c.claims, time.Now())
	return 0, errDown
}

func TestAContextEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &disturbed{Memory: segmenttest.NewMemory()}
		store.down.Store(true)
		source := newSource(t, store)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		ids := []int64{1, 2}
		err := source.Fill(ctx, ids)
		if !errors.Is(err, segment.ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) || ids[0]+ids[1] != 0 {
			t.Errorf("Fill returned %v, %v", ids, err)
		}
		must(t, source.Close())
		if _, err := source.Next(t.Context()); !errors.Is(err, segment.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestAStoreThatHasLostNumbersIsFoundOut(t *testing.T) {
	t.Parallel()
	store := segmenttest.NewMemory()
	source := newSource(t, store, segment.WithBlock(1, 1))
	for range 20 {
		if _, err := source.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	counters, err := store.Counters(t.Context(), "")
	must(t, err)
	if ok, err := store.Remove(t.Context(), counters[0]); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n, err := source.Next(t.Context()); !errors.Is(err, segment.ErrWentBack) {
		t.Errorf("Next returned %d, %v", n, err)
	}
}

func TestADayHasItsNumbersWithoutAGap(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[time.Time]
	set := func(at time.Time) { now.Store(&at) }
	zone, err := time.LoadLocation("America/Sao_Paulo") // whose summer time began and ended at midnight
	must(t, err)
	set(time.Date(2018, 2, 17, 23, 59, 59, 0, zone))
	store := segmenttest.NewMemory()
	source, err := segment.Daily(store, "invoice", 1, zone, segment.WithClock(func() time.Time { return *now.Load() }))
	must(t, err)
	t.Cleanup(func() { must(t, source.Close()) })
	want := func(numbers ...int64) {
		t.Helper()
		for _, number := range numbers {
			if n, err := source.Next(t.Context()); err != nil || n != number {
				t.Fatalf("at %v Next returned %d, %v; want %d", *now.Load(), n, err, number)
			}
		}
	}
	want(201802171, 201802172)
	set(now.Load().Add(time.Second)) // it is 23:00 of the same day again
	want(201802173)
	set(now.Load().Add(time.Hour))
	want(201802181)
	set(now.Load().Add(-time.Second)) // a step back over midnight
	want(201802174)
	set(now.Load().Add(time.Second))
	want(201802182)
	ids := make([]int64, 8)
	if err := source.Fill(t.Context(), ids); !errors.Is(err, segment.ErrDayFull) || ids[0] != 0 {
		t.Errorf("8 numbers where 7 are left: %v, %v", ids, err)
	}
	must(t, source.Fill(t.Context(), ids[:7]))
	if !slices.Equal(ids[:7], []int64{201802183, 201802184, 201802185, 201802186, 201802187, 201802188, 201802189}) {
		t.Errorf("the last numbers are %v", ids[:7])
	}
	for range 3 {
		if n, err := source.Next(t.Context()); !errors.Is(err, segment.ErrDayFull) {
			t.Errorf("on a full day Next returned %d, %v", n, err)
		}
	}
	set(time.Date(2018, 11, 3, 23, 59, 59, 0, zone))
	want(201811031)
	set(now.Load().Add(time.Second)) // 01:00: midnight is left out
	want(201811041)
}

func TestDailyNumbersOfManyProcessesAreAllDifferent(t *testing.T) {
	t.Parallel()
	store := segmenttest.NewMemory()
	day := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	var (
		all sync.WaitGroup
		mu  sync.Mutex
		got []int64
	)
	for range 8 {
		source, err := segment.Daily(store, "invoice", 6, time.UTC, segment.WithClock(day))
		must(t, err)
		t.Cleanup(func() { must(t, source.Close()) })
		for range 2 {
			all.Go(func() {
				for i := range 50 {
					ids := make([]int64, 1+i%3)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*20*time.Microsecond)
					err := source.Fill(ctx, ids) // which may be too late
					cancel()
					if err != nil {
						err = source.Fill(t.Context(), ids)
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got = append(got, ids...)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	slices.Sort(got)
	count := len(got)
	if n := len(slices.Compact(got)); n != count {
		t.Errorf("of %d numbers %d are different", count, n)
	}
}

func TestTicketsSkipADeadServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := &disturbed{Memory: segmenttest.NewMemory()}, &disturbed{Memory: segmenttest.NewMemory()}
		even := newSource(t, a, segment.WithResidue(0, 2), segment.WithBlock(1, 10))
		odd := newSource(t, b, segment.WithResidue(1, 2), segment.WithBlock(1, 10))
		tickets, err := segment.Tickets(even, odd)
		must(t, err)
		seen := map[int64]bool{}
		parity := [2]int{}
		take := func(n int) {
			for range n {
				began := time.Now()
				number, err := tickets.Next(t.Context())
				if err != nil || seen[number] || time.Since(began) > 200*time.Millisecond {
					t.Fatalf("after %v Next returned %d, %v, seen: %t", time.Since(began), number, err, seen[number])
				}
				seen[number] = true
				parity[number&1]++
			}
		}
		take(200)
		if parity[0] < 50 || parity[1] < 50 {
			t.Errorf("the servers gave %v numbers", parity)
		}
		a.down.Store(true)
		take(500)
		before := parity[0]
		a.down.Store(false)
		time.Sleep(time.Minute)
		take(500)
		if parity[0] < before+100 {
			t.Errorf("the server that came back gave %d numbers", parity[0]-before)
		}
		b.refuse.Store(true)
		a.refuse.Store(true)
		for {
			if _, err := tickets.Next(t.Context()); err != nil {
				if !errors.Is(err, segment.ErrExhausted) {
					t.Error(err)
				}
				break
			}
		}
	})
}

func TestTicketsThatCouldCollideAreRefused(t *testing.T) {
	t.Parallel()
	store := segmenttest.NewMemory()
	half := newSource(t, store, segment.WithResidue(0, 2))
	third := newSource(t, store, segment.WithResidue(1, 3))
	for _, sources := range [][]*segment.Source{{half, third}, {half, half}} {
		if _, err := segment.Tickets(sources...); !errors.Is(err, segment.ErrResidue) {
			t.Errorf("Tickets returned %v", err)
		}
	}
	if _, err := half.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Next(t.Context()); !errors.Is(err, segment.ErrResidue) {
		t.Errorf("a counter with the modulus 2 gave numbers to one with 3: %v", err)
	}
}

func BenchmarkSource(b *testing.B) {
	source := newSource(b, segmenttest.NewMemory())
	b.Run("Next", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := source.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Fill1000", func(b *testing.B) {
		b.ReportAllocs()
		ids := make([]int64, 1000)
		for b.Loop() {
			if err := source.Fill(b.Context(), ids); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/id")
	})
}
