package generator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// granted is a lease whose window a test changes; see scripted.
type granted struct {
	scripted
	refuse error // of every Claim

	claims []generator.Claim
}

func (g *granted) Claim(c generator.Claim) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse == nil {
		g.claims = append(g.claims, c)
	}
	return g.refuse
}

func (g *granted) Extensions() uint64 { return 42 }

var _ generator.Lease = (*granted)(nil)

// newLease returns a lease of node 3 from midLife on.
func newLease(length time.Duration) *granted {
	return &granted{scripted: scripted{window: generator.Window{Node: 3, From: midLife(), Until: after(length)}}}
}

// sealOf is the Seal that a generator gave to its lease.
func sealOf(t testing.TB, l *granted) func() time.Time {
	t.Helper()
	if len(l.claims) != 1 {
		t.Fatalf("%d claims, want one", len(l.claims))
	}
	return l.claims[0].Seal
}

func TestALeaseIsToldOnceWhichGeneratorItServes(t *testing.T) {
	t.Parallel()
	l := newLease(time.Hour)
	layout := generator.Twitter()
	g := mustNew(t, layout, l, generator.WithClock(newTestClock(midLife()).Now), generator.WithMaxAhead(time.Minute))
	mustFill(t, g, 10)
	if len(l.claims) != 1 {
		t.Fatalf("%d claims, want one", len(l.claims))
	}
	c := l.claims[0]
	if fmt.Sprint(c.Layout) != fmt.Sprint(layout) || c.MaxAhead != time.Minute || c.Seal == nil {
		t.Errorf("the claim is %+v", c)
	}
	// It has a copy: what it does to it is its own business.
	c.Layout.Node[0].Bits = 1
	if got := g.Layout().Node[0].Bits; got != 5 {
		t.Errorf("the generator's layout has changed to %d bits", got)
	}
	if got := g.Stats().Extensions; got != 42 {
		t.Errorf("%d extensions, want what the lease says", got)
	}
}

func TestTheMaxAheadOfAClaimIsTheGenerators(t *testing.T) {
	t.Parallel()
	l := newLease(time.Hour)
	mustNew(t, generator.Game(), l, generator.WithClock(newTestClock(midLife()).Now))
	if got := l.claims[0].MaxAhead; got != time.Second {
		t.Errorf("MaxAhead is %v, want ten ticks", got)
	}
}

func TestALeaseThatIsTakenMakesNoGenerator(t *testing.T) {
	t.Parallel()
	l := newLease(time.Hour)
	l.refuse = fmt.Errorf("%w: by another", generator.ErrTenureTaken)
	g, err := generator.New(generator.Default(), l, generator.WithClock(newTestClock(midLife()).Now))
	wantError(t, err, generator.ErrTenureTaken, "generator: tenure already serves a generator: by another")
	if g != nil {
		t.Error("there is a generator and an error")
	}
}

// Whoever claims a lease keeps it, so nothing may go wrong after it.
func TestAGeneratorThatFailsClaimsNothing(t *testing.T) {
	t.Parallel()
	clock := generator.WithClock(newTestClock(midLife()).Now)
	early := generator.WithClock(newTestClock(generator.Default().Epoch.Add(-1)).Now)
	late := generator.WithClock(newTestClock(generator.Default().End()).Now)
	broken, far := generator.Default(), newLease(time.Hour)
	broken.Tick = 0
	far.window.Node = 1024
	for name, c := range map[string]struct {
		layout generator.Layout
		lease  *granted
		opts   []generator.Option
		want   error
	}{
		"a layout that is invalid":  {broken, newLease(time.Hour), nil, generator.ErrInvalidLayout},
		"an option that is invalid": {generator.Default(), newLease(time.Hour), []generator.Option{clock, nil}, generator.ErrInvalidOption},
		"a node out of range":       {generator.Default(), far, []generator.Option{clock}, generator.ErrNodeRange},
		"before the epoch":          {generator.Default(), newLease(time.Hour), []generator.Option{early}, generator.ErrBeforeEpoch},
		"after the end":             {generator.Default(), newLease(time.Hour), []generator.Option{late}, generator.ErrTimeExhausted},
	} {
		_, err := generator.New(c.layout, c.lease, c.opts...)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if len(c.lease.claims) != 0 {
			t.Errorf("%s: the lease was claimed", name)
		}
	}
}

// every way to ask for IDs has to fail with ErrSealed and leave nothing behind.
func wantSealed(t *testing.T, g *generator.Generator) {
	t.Helper()
	for name, way := range ways(g) {
		ids, err := way(t.Context())
		if !errors.Is(err, generator.ErrSealed) {
			t.Errorf("%s: error %v, want ErrSealed", name, err)
		}
		if ids[0] != 0 || ids[len(ids)-1] != 0 {
			t.Errorf("%s: ids and an error", name)
		}
	}
	// What needs no ID does not fail.
	if err := g.Fill(t.Context(), nil); err != nil {
		t.Errorf("Fill of nothing: %v", err)
	}
}

func TestSealReturnsTheEndOfTheLastStampedTick(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		shards int
		draw   func(g *generator.Generator)
		want   time.Duration // after midLife; negative: nothing was stamped
	}{
		"nothing":               {1, func(*generator.Generator) {}, -1},
		"one ID":                {1, func(g *generator.Generator) { mustNext(t, g) }, ms},
		"a tick, counted on":    {1, func(g *generator.Generator) { mustNext(t, g); mustNext(t, g); mustNext(t, g) }, ms},
		"a whole tick":          {1, func(g *generator.Generator) { mustFill(t, g, 4) }, ms},
		"one ID more":           {1, func(g *generator.Generator) { mustFill(t, g, 5) }, 2 * ms},
		"as far as may be":      {1, func(g *generator.Generator) { mustFill(t, g, 4*11) }, 11 * ms},
		"one on a shard":        {4, func(g *generator.Generator) { mustNextLike(t, g, 3) }, ms},
		"shards, then one more": {4, func(g *generator.Generator) { mustNextLike(t, g, 3); mustNext(t, g) }, 2 * ms},
	} {
		l := newLease(time.Hour)
		g := mustNew(t, small(2), l, generator.WithClock(newTestClock(midLife()).Now), generator.WithShards(c.shards))
		c.draw(g)
		before := g.Stats()
		var want time.Time
		if c.want >= 0 {
			want = after(c.want)
		}
		for range 3 {
			if last := sealOf(t, l)(); !last.Equal(want) || last.Location() != time.UTC {
				t.Errorf("%s: Seal returned %v, want %v", name, last, want)
			}
			wantSealed(t, g)
		}
		if s := g.Stats(); s.Issued != before.Issued || !s.Last.Equal(before.Last) {
			t.Errorf("%s: the stats were %+v and are %+v", name, before, s)
		}
	}
}

func TestTheLastTickOfALayoutCanBeSealed(t *testing.T) {
	t.Parallel()
	layout := small(2)
	layout.Node = nil
	for _, bits := range []int{1, 20, 41} {
		layout.TimeBits = bits
		end := layout.End()
		l := &granted{scripted: scripted{window: generator.Window{Until: end}}}
		g := mustNew(t, layout, l, generator.WithClock(newTestClock(end.Add(-1)).Now))
		mustNext(t, g)
		if last := sealOf(t, l)(); !last.Equal(end) {
			t.Errorf("Seal returned %v, want the end of the layout, %v", last, end)
		}
	}
}

// A context that has ended is what is said first, as it is otherwise.
func TestACanceledCallOfASealedGenerator(t *testing.T) {
	t.Parallel()
	l := newLease(time.Hour)
	g := mustNew(t, small(2), l, generator.WithClock(newTestClock(midLife()).Now))
	sealOf(t, l)()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, way := range ways(g) {
		if _, err := way(ctx); !errors.Is(err, generator.ErrCanceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever waits for the clock finds the seal when the wait is over.
func TestACallThatWaitsForTheClockEndsWithTheSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(time.Hour)
		clock := newBubbleClock(midLife())
		g := mustNew(t, small(2), l, generator.WithClock(clock.Now), generator.WithShards(1))
		mustFill(t, g, 4*11)
		done := make(chan error)
		for range 5 {
			go func() {
				_, err := g.Next(t.Context())
				done <- err
			}()
		}
		synctest.Wait()
		last := sealOf(t, l)()
		if want := after(11 * time.Millisecond); !last.Equal(want) {
			t.Errorf("Seal returned %v, want %v", last, want)
		}
		for range 5 {
			wantError(t, <-done, generator.ErrSealed)
		}
	})
}

// So does whoever waits for the lease, whatever the lease says of its end.
func TestACallThatWaitsForItsLeaseEndsWithTheSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]error{"it was closed": errNoMore, "it has grown": nil} {
			l := newLease(time.Millisecond)
			sealed := make(chan struct{})
			l.onExtend = func(_ context.Context, s *scripted) error {
				<-sealed
				s.grow(time.Hour)
				return answer
			}
			g := mustNew(t, small(2), l, generator.WithClock(newBubbleClock(midLife()).Now), generator.WithShards(1))
			mustFill(t, g, 4)
			done := make(chan error)
			go func() {
				_, err := g.Next(t.Context())
				done <- err
			}()
			synctest.Wait()
			sealOf(t, l)()
			close(sealed)
			if err := <-done; !errors.Is(err, generator.ErrSealed) {
				t.Errorf("%s: error %v, want ErrSealed", name, err)
			}
		}
	})
}

// Everything that was handed out lies before the end that Seal returns, and nothing is handed out
// that was asked for after it: on several cores, at whatever moment the seal comes.
func TestNothingIsStampedBehindASeal(t *testing.T) {
	t.Parallel()
	layout := vast()
	layout.Node = []generator.Field{{Name: "node", Bits: 1}}
	layout.SequenceBits = 16 // so that ticks end now and then by themselves
	for round := range scaled(400) {
		l := &granted{scripted: scripted{window: generator.Window{Until: time.Now().Add(time.Hour)}}}
		g := mustNew(t, layout, l)
		var sealed atomic.Bool
		var wg sync.WaitGroup
		lasts := make([]int64, 4)
		for i := range lasts {
			wg.Go(func() {
				ids := make([]int64, 50)
				for n := 0; ; n++ {
					late := sealed.Load()
					var err error
					switch {
					case i == 0 && n%8 == 0:
						err = g.Fill(t.Context(), ids)
					case i == 1 && n%8 == 0:
						ids[len(ids)-1], err = g.NextLike(t.Context(), int64(n))
					default:
						ids[len(ids)-1], err = g.Next(t.Context())
					}
					if err != nil {
						if !errors.Is(err, generator.ErrSealed) {
							t.Error(err)
						}
						return
					}
					if late {
						t.Errorf("round %d: an ID after the seal", round)
						return
					}
					lasts[i] = ids[len(ids)-1]
				}
			})
		}
		time.Sleep(time.Duration(round%40) * 10 * time.Microsecond)
		ends := make([]time.Time, 2)
		var sealing sync.WaitGroup
		for i := range ends {
			sealing.Go(func() { ends[i] = sealOf(t, l)() })
		}
		sealing.Wait()
		sealed.Store(true)
		wg.Wait()
		if !ends[0].Equal(ends[1]) {
			t.Errorf("round %d: one Seal returned %v, the other %v", round, ends[0], ends[1])
		}
		var greatest int64
		for _, last := range lasts {
			greatest = max(greatest, last)
		}
		// The last ID may have been reserved for a batch that was not handed out.
		if greatest == 0 {
			continue
		}
		if stamped := mustDecompose(t, layout, greatest).Time.Add(layout.Tick); stamped.After(ends[0]) {
			t.Fatalf("round %d: an ID of the tick that ends at %v, sealed at %v", round, stamped, ends[0])
		}
	}
}

func TestASealedGeneratorIsClosedForTheWholeModule(t *testing.T) {
	l := newLease(time.Hour)
	g := mustNew(t, generator.Default(), l)
	sealOf(t, l)()
	_, err := g.Next(t.Context())
	if !errors.Is(err, generator.ErrSealed) || !errors.Is(err, errs.ErrClosed) {
		t.Errorf("%v is not both generator.ErrSealed and errs.ErrClosed", err)
	}
	if err.Error() != "generator: sealed" {
		t.Errorf("the error says %q", err)
	}
	if errors.Is(errs.ErrClosed, generator.ErrSealed) || errors.Is(err, generator.ErrTenureTaken) {
		t.Error("an error that is none of it counts as generator.ErrSealed, or the other way round")
	}
}
