package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// wrapped is somebody's own tenure over a keeper. It does not pass Claim on, so the keeper knows
// nothing of the generators that stamp in its window.
type wrapped struct{ k *lease.Keeper }

func (w wrapped) Window() generator.Window         { return w.k.Window() }
func (w wrapped) Extend(ctx context.Context) error { return w.k.Extend(ctx) }

func newWrapped(t *testing.T, k *lease.Keeper) *generator.Generator {
	t.Helper()
	g, err := generator.New(generator.Default(), wrapped{k}, generator.WithShards(1))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A keeper that was not told of its generator does not know which ticks that has stamped.
func TestCloseDoesNotLowerTheEndOfAWindowThatNobodyClaimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		g := newWrapped(t, k)
		issued := map[int64]bool{}
		for range 5 {
			time.Sleep(time.Second)
			issued[mustNext(t, g)] = true
		}
		until := s.of(t, 7).Until
		version := s.of(t, 7).Version
		mustClose(t, k)
		wantFree(t, s.of(t, 7), version+1, until)

		again := acquire(t, s, lease.WithNodes(7, 7))
		if from := again.Window().From; from.Before(until) {
			t.Errorf("the next window begins at %v, before the end %v of what was granted", from, until)
		}
		next := newGenerator(t, again, generator.WithShards(1))
		for range 5 {
			if id := mustNext(t, next); issued[id] {
				t.Errorf("the ID %d was made twice", id)
			}
		}
	})
}

// A program that fails before it has a generator gives its number back at once.
func TestCloseFreesANumberThatNobodyLookedAtAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		mustClose(t, k)
		wantFree(t, s.of(t, 7), 2, midLife())
	})
}
