package generator_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

func TestContentionInsideABubbleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := vast()
		l.Epoch = bubbleBegan().AddDate(-1, 0, 0)
		g := mustNew(t, l, always(0))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100_000 {
					if _, err := g.Next(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestWindowEndIsThatOfTheTenure(t *testing.T) {
	tenure := &scripted{window: generator.Window{Node: 3, Until: after(time.Hour)}}
	g := mustNew(t, generator.Default(), tenure, generator.WithClock(newTestClock(midLife()).Now))
	mustNext(t, g)
	tenure.grow(time.Hour)
	if got := g.Stats().WindowEnd; !got.Equal(after(2 * time.Hour)) {
		t.Errorf("WindowEnd %v, want %v", got, after(2*time.Hour))
	}
}

func TestYearsLeftOfALongLife(t *testing.T) {
	l := generator.Layout{
		Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond, TimeBits: 45, SequenceBits: 12,
	}
	g := mustNew(t, l, always(0), generator.WithClock(newTestClock(l.Epoch).Now))
	if got := g.Stats().YearsLeft; math.Abs(got-1114.93) > 0.01 {
		t.Errorf("%v years left until %v, want 1114.93", got, l.End())
	}
}

func TestAWindowInTheFutureIsNotBlamedOnTheLoad(t *testing.T) {
	tenure := &scripted{window: generator.Window{Node: 3, From: after(time.Minute), Until: after(time.Hour)}}
	g := mustNew(t, generator.Default(), tenure, generator.WithClock(newTestClock(midLife()).Now))
	_, err := g.Next(t.Context())
	if late := asClockError(t, err); strings.Contains(late.Error(), "faster than the layout") {
		t.Errorf("the very first id of a generator: %v", err)
	}
}

func TestTheFenceIsNotBlamedOnTheLoad(t *testing.T) {
	g := mustNew(t, generator.GameSecond(), generator.FixedNode(3), generator.WithClock(newTestClock(midLife()).Now),
		generator.WithMaxWait(100*time.Millisecond))
	_, err := g.Next(t.Context())
	if late := asClockError(t, err); strings.Contains(late.Error(), "faster than the layout") {
		t.Errorf("the very first id of a generator: %v", err)
	}
}

func TestAClockThreeCenturiesAfterTheEpochIsRefused(t *testing.T) {
	l := generator.Layout{
		Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond, TimeBits: 45, SequenceBits: 12,
	}
	for year, refused := range map[int]bool{2317: false, 2318: true, 2400: true} {
		clock := newTestClock(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		_, err := generator.New(l, generator.FixedNode(0), generator.WithClock(clock.Now))
		if errors.Is(err, generator.ErrTimeExhausted) != refused {
			t.Errorf("in %d: %v, want that it is refused: %t", year, err, refused)
		}
	}
}

func TestAnEmptyFillNeedsNoContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mustNew(t, generator.Default(), always(1)).Fill(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestNextAndFillAgreeBeforeTheEpoch(t *testing.T) {
	l := generator.Default()
	clock := newTestClock(l.Epoch.Add(time.Millisecond))
	g := mustNew(t, l, always(1), generator.WithClock(clock.Now))
	mustNext(t, g)
	clock.Set(l.Epoch.Add(-time.Millisecond))
	_, err := g.Next(t.Context())
	if fill := g.Fill(t.Context(), make([]int64, 1)); (err == nil) != (fill == nil) {
		t.Errorf("Next: %v, Fill: %v", err, fill)
	}
}
