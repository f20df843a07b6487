package lease_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
)

// simWorld is one simulation: a store, machines, and what happens to them.
//
// It runs in a bubble of testing/synctest, where time passes only while all goroutines wait, so a
// simulated hour takes as long as there is something to do. The keepers and generators are the real
// ones, with their own goroutines and timers. Everything that waits does so for a random number of
// nanoseconds, so practically never do two things happen at the same instant, and the whole is
// repeated exactly by its seed.
type simWorld struct {
	simScenario
	mutant simMutant
	began  time.Time
	store  *simStore
	down   simSpells // times of an outage
	slow   simSpells
	tasks  sync.WaitGroup

	mu sync.Mutex
	// All below is guarded by mu.
	tally     map[string]int
	breaches  []string
	processes []*simProcess
	traced    bool
	trace     []string
	hash      uint64
}

// simSlot is a machine. Its processes follow each other and share its clock.
type simSlot struct {
	w     *simWorld
	index int
	clock *simClock
	cuts  simSpells // from the store
	still simSpells // times when the process stands still
}

// simResult is what one simulation was and found.
type simResult struct {
	seed       uint64
	tally      map[string]int
	breaches   []string // of the protocol
	duplicates int
	hash       uint64
	trace      []string
	waits      simWaits
}

// simulate runs one seed.
func simulate(t *testing.T, s simScenario, mutant simMutant, traced bool) simResult {
	t.Helper()
	var result simResult
	synctest.Test(t, func(*testing.T) {
		w := newSimWorld(s, mutant, traced)
		for i := range s.slots {
			slot := w.newSlot(i)
			w.tasks.Go(slot.run)
		}
		w.tasks.Wait()
		// A probe of an attempt that is over may still be on its way back, and it counts its answer.
		synctest.Wait()
		result = w.judge()
	})
	return result
}

// Streams of random choices of a world, and of each process.
const (
	streamWorld = 1 + iota
	streamMachine
	streamProcess
	streamCalls
	streamKeeper
	streamLink
	streamClock
	streamChoices
	streamFate
	streamEnd
	streamProbe
)

func (w *simWorld) stream(purpose, slot, start int) *simRand {
	return simnet.NewRandom(w.seed, uint64(start)<<32|uint64(slot)<<16|uint64(purpose))
}

func newSimWorld(s simScenario, mutant simMutant, traced bool) *simWorld {
	w := &simWorld{
		simScenario: s, mutant: mutant, began: time.Now(), traced: traced, tally: map[string]int{},
	}
	r := w.stream(streamWorld, 0, 0)
	w.store = newSimStore(newSimClock(s, r, w.began), func(r lease.Record) {
		w.note(fmt.Sprintf("node %d", r.Node), fmt.Sprintf("version %d until %v of %q", r.Version, r.Until, holder(r)))
	})
	w.down = drawSpells(r, s.length, s.outages, s.span/2)
	w.slow = drawSpells(r, s.length, s.outages, s.span)
	w.tally["outages"] = len(w.down)
	w.tally["times of a slow store"] = len(w.slow)
	w.tally["clock steps"] = len(w.store.clock.steps) - 1
	return w
}

func (w *simWorld) newSlot(index int) *simSlot {
	r := w.stream(streamMachine, index, 0)
	slot := &simSlot{
		w: w, index: index,
		clock: newSimClock(w.simScenario, r, w.began),
		cuts:  drawSpells(r, w.length, w.cuts, w.span),
		still: drawSpells(r, w.length, w.pauses, w.span),
	}
	for _, cut := range slot.cuts {
		w.note(fmt.Sprintf("machine %d", index), fmt.Sprintf("will be cut off from %v to %v", cut.from, cut.to))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally["partitions"] += len(slot.cuts)
	w.tally["pauses"] += len(slot.still)
	w.tally["clock steps"] += len(slot.clock.steps) - 1
	return slot
}

// run starts one process after the other.
func (s *simSlot) run() {
	r := s.w.stream(streamMachine, s.index, 1)
	time.Sleep(r.About(s.w.span / 2))
	for start := 0; s.w.left() > 0; start++ {
		newSimProcess(s, start).run()
		time.Sleep(r.About(s.w.span / 2))
	}
}

func (w *simWorld) elapsed() time.Duration { return time.Since(w.began) }

// left is how long the simulation goes on.
func (w *simWorld) left() time.Duration { return w.length - w.elapsed() }

// later lets a swap arrive after a time, even if the process that wanted it is dead by then.
func (w *simWorld) later(d time.Duration, swap func() bool) {
	w.count("swaps that arrived late")
	w.tasks.Go(func() {
		time.Sleep(d)
		if swap() {
			w.count("swaps that arrived late and were stored")
		}
	})
}

func (w *simWorld) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally[what]++
}

// breach records that something happened which the protocol rules out.
func (w *simWorld) breach(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = append(w.breaches, fmt.Sprintf("after %v: ", w.elapsed())+fmt.Sprintf(format, args...))
}

// note writes a line of the trace. The hash of the trace is the sum of those of its lines: which of
// two goroutines comes first that do something at the same instant does not matter. What is in
// aside may differ from run to run, as the random part of an owner does.
func (w *simWorld) note(who, what string, aside ...any) {
	if !w.traced {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%14v  %-10s %s", w.elapsed(), who, what)
	h := fnv.New64a()
	h.Write([]byte(line))
	w.hash += h.Sum64()
	w.trace = append(w.trace, strings.TrimSpace(line+"  "+fmt.Sprintln(aside...)))
}

// sum adds the tallies of many simulations.
func simSum(results []simResult) map[string]int {
	sum := map[string]int{}
	for _, r := range results {
		for what, n := range r.tally {
			sum[what] += n
		}
	}
	return sum
}

// tallyText lists a tally.
func tallyText(tally map[string]int) string {
	var lines []string
	for what, n := range tally {
		lines = append(lines, fmt.Sprintf("%12d %s", n, what))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[13:], b[13:]) })
	return strings.Join(lines, "\n")
}
