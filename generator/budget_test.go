package generator_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// busy is a layout whose life has begun when the clock of a bubble starts, with ticks that no test
// exhausts.
func busy() generator.Layout {
	l := roomy()
	l.Epoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	return l
}

// timeOf is the beginning of the tick of an ID.
func timeOf(t *testing.T, l generator.Layout, id int64) time.Time {
	t.Helper()
	parts, err := l.Decompose(id)
	if err != nil {
		t.Fatal(err)
	}
	return parts.Time
}

func TestABusyTickHasABudgetThatEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := busy()
		g := mustNew(t, l, generator.FixedNode(0))
		for range 10 {
			var last int64
			for range 1000 {
				last = mustNext(t, g)
			}
			if limit := generator.Budget(g); limit <= last {
				t.Errorf("after 1,000 IDs in a tick, the budget ends at %d and the last ID is %d", limit, last)
			}
			time.Sleep(20 * l.Tick) // beyond MaxAhead, which the first ticks may have used
			if limit := generator.Budget(g); limit != 0 {
				t.Errorf("the budget goes on to %d after its tick", limit)
			}
			if at, now := timeOf(t, l, mustNext(t, g)), time.Now().Truncate(l.Tick); !at.Equal(now) {
				t.Errorf("the ID after a rest is of %v, and it is %v", at, now)
			}
		}
	})
}

func TestAFewIDsInATickOrAnInjectedClockGetNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := busy()
		few, injected := mustNew(t, l, generator.FixedNode(0)), mustNew(t, l, generator.FixedNode(0), generator.WithClock(time.Now))
		for range 100 {
			for range 10 {
				mustNext(t, few)
				if limit := generator.Budget(few); limit != 0 {
					t.Fatalf("ten IDs in a tick gave a budget to %d", limit)
				}
			}
			for range 100 {
				mustNext(t, injected)
			}
			time.Sleep(20 * l.Tick)
		}
		if limit := generator.Budget(injected); limit != 0 {
			t.Errorf("an injected clock gave a budget to %d, and nobody knows how fast it runs", limit)
		}
	})
}

// A hundred rows in a tick are what one goroutine creates on SQLite. The timer would cost them more than the
// readings of the clock.
func TestAnEvenTickOfAHundredIDsGetsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := busy()
		g := mustNew(t, l, generator.FixedNode(0))
		time.Sleep(20 * l.Tick)
		for range 2000 {
			id := mustNext(t, g)
			if limit := generator.Budget(g); limit != 0 {
				t.Fatalf("the budget goes to %d after the ID %d", limit, id)
			}
			time.Sleep(l.Tick / 100)
		}
	})
}

// Callers come in bursts and pauses of every length. What a budget allows is never older than the tick
// before, and the order holds.
func TestNoIDIsOlderThanATickWhateverTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := busy()
		g := mustNew(t, l, generator.FixedNode(0))
		random := rand.New(rand.NewPCG(1, 2))
		time.Sleep(20 * l.Tick)
		last := mustNext(t, g)
		for range scaled(5000) {
			for range random.IntN(200) {
				id := mustNext(t, g)
				if id <= last {
					t.Fatalf("%d follows %d", id, last)
				}
				last = id
				if age := time.Since(timeOf(t, l, id)); age >= 2*l.Tick {
					t.Fatalf("an ID is %v old, and a tick is %v", age, l.Tick)
				}
			}
			time.Sleep(time.Duration(random.Int64N(int64(l.Tick) * 3 / 2)))
		}
	})
}
