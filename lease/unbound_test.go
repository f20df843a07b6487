package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// twoLayouts are those of two programs that share a store by mistake. The second has fewer nodes.
func twoLayouts() [2]generator.Layout {
	other := generator.Default()
	other.Node, other.SequenceBits = []generator.Field{{Name: "node", Bits: 6}}, 16
	return [2]generator.Layout{generator.Default(), other}
}

// firstStarts lets two programs with different layouts start on an empty store, each of which finds
// it empty. It returns what they got.
func firstStarts(t *testing.T, s *table, listed func()) (keepers [2]*lease.Keeper) {
	t.Helper()
	var both, done sync.WaitGroup
	both.Add(2)
	var mu sync.Mutex
	lists := 0
	s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
		if r.kind != asksList {
			return serve(), nil
		}
		mu.Lock()
		lists++
		n := lists
		mu.Unlock()
		if n <= 2 {
			serve()
			both.Done()
			both.Wait()
			return true, nil
		}
		listed()
		return serve(), nil
	})
	for i, l := range twoLayouts() {
		done.Go(func() {
			k, err := acquireFor(t.Context(), t, s, l, lease.WithNodes(int64(2*i), int64(2*i+1)))
			if err != nil && !errors.Is(err, lease.ErrLayoutMismatch) {
				t.Error(err)
			}
			keepers[i] = k
		})
	}
	done.Wait()
	s.spoilWith(nil)
	return keepers
}

func TestTwoLayoutsAtTheFirstStartDoNotShutEachOtherOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, listed := range map[string]func(){
			"both look before one gives back": func() { time.Sleep(time.Millisecond) },
			"one after the other":             func() {},
		} {
			for range 20 {
				s := newTable()
				keepers := firstStarts(t, s, listed)
				winners := 0
				for _, k := range keepers {
					if k != nil {
						winners++
						mustClose(t, k)
					}
				}
				if winners == 2 {
					t.Fatalf("%s: both layouts have a number of one store: %+v", name, s.all())
				}
				// Nobody has made an ID, so either of them may have the store, and then keeps it.
				for i, l := range twoLayouts() {
					k, err := acquireFor(t.Context(), t, s, l)
					if err != nil {
						t.Fatalf("%s: after %d winners, layout %d: %v; the records are %+v", name, winners, i, err, s.all())
					}
					mustClose(t, k)
				}
			}
		}
	})
}

func TestARecordBindsItsLayoutFromTheFirstIDOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		layouts := twoLayouts()
		for name, use := range map[string]func(k *lease.Keeper, g *generator.Generator){
			"an ID was made":           func(_ *lease.Keeper, g *generator.Generator) { mustNext(t, g) },
			"it was held by a process": func(k *lease.Keeper, _ *generator.Generator) { k.Crash() },
		} {
			s := newTable()
			k, err := acquireFor(t.Context(), t, s, layouts[0])
			if err != nil {
				t.Fatal(err)
			}
			use(k, newGenerator(t, k))
			if name == "an ID was made" {
				mustClose(t, k)
				// Later holders that make none do not change that.
				mustClose(t, acquire(t, s, lease.WithNodes(k.Window().Node, k.Window().Node)))
			}
			time.Sleep(time.Hour)
			_, err = acquireFor(t.Context(), t, s, layouts[1])
			if !errors.Is(err, lease.ErrLayoutMismatch) {
				t.Errorf("%s: another layout is answered %v", name, err)
			}
			acquire(t, s)
		}
	})
}

// A program was started with the wrong layout, and stopped before it had made an ID.
func TestALayoutThatMadeNoIDLeavesTheStoreToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		layouts := twoLayouts()
		wrong, err := acquireFor(t.Context(), t, s, layouts[0], lease.WithNodes(900, 900))
		if err != nil {
			t.Fatal(err)
		}
		newGenerator(t, wrong)
		time.Sleep(span) // it is extended meanwhile
		if wrong.Extensions() == 0 {
			t.Error("no extension")
		}
		mustClose(t, wrong)
		right, err := acquireFor(t.Context(), t, s, layouts[1]) // which has no number 900
		if err != nil {
			t.Fatal(err)
		}
		g, err := generator.New(layouts[1], right)
		if err != nil {
			t.Fatal(err)
		}
		mustNext(t, g)
		mustClose(t, right)
		_, err = acquireFor(t.Context(), t, s, layouts[0], lease.WithNodes(900, 900))
		wantError(t, err, lease.ErrLayoutMismatch)
	})
}

// Whoever takes a number that binds nothing yet has to look again, just as with a number that was
// never used: another layout may have come meanwhile.
func TestAnUnboundNumberIsLookedAtAgainAfterItIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		layouts := twoLayouts()
		s := newTable()
		mustClose(t, acquire(t, s, lease.WithNodes(3, 3)))
		late := heldBy("another program", 5, after(time.Hour))
		late.Layout = lease.Fingerprint(layouts[1])
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			done := serve()
			if r.kind == asksSwap {
				s.put(late)
			}
			return done, nil
		})
		_, err := tryAcquire(t, s, lease.WithNodes(3, 3))
		wantError(t, err, lease.ErrLayoutMismatch, "nodes [5]")
		r := s.of(t, 3)
		if r.Owner != "" || r.Layout == lease.Fingerprint(layouts[0]) {
			t.Errorf("the loser left %+v", r)
		}
		s.spoilWith(nil)
		k, err := acquireFor(t.Context(), t, s, layouts[1], lease.WithNodes(3, 3))
		if err != nil {
			t.Fatal(fmt.Errorf("the winner: %w", err))
		}
		mustClose(t, k)
	})
}
