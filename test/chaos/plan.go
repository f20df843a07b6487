package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A kind is what can happen.
type kind int

const (
	kill    kind = iota // a process is killed, and started again
	pause               // a process is stopped
	step                // the clock of a process is wrong
	cut                 // the connections of a process are closed, and new ones as well
	oneWay              // the requests of a process arrive, the answers do not
	restart             // the server is killed, and started again
	kinds
)

func (k kind) String() string {
	return [kinds]string{"kills", "pauses", "clock steps", "cuts", "one-way connections", "restarts"}[k]
}

// A fault is one thing that happens, for a while.
type fault struct {
	kind        kind
	worker      int // that it happens to; -1 for the server
	from, until time.Duration
	offset      time.Duration // of the clock, in a step
	late        bool          // what was kept on a one-way connection arrives after all
}

const (
	// maxSpans is how many spans a fault lasts at most.
	maxSpans = 3
	// maxOffset is how far a clock is wrong at most, beyond what leases tolerate.
	maxOffset = 8 * time.Second
	// calmBefore and calmAfter are how long nothing else happens to half of the workers around a
	// restart of the server: they show how fast IDs come back.
	calmBefore, calmAfter = 3 * time.Second, 5 * time.Second
	// settled is how long nothing happens at the end.
	settled = time.Second
)

// plan draws what happens within a time, sorted by the beginning.
func plan(random *rand.Rand, workers int, length, span time.Duration, server bool) []fault {
	var faults []fault
	calm := make([][]fault, workers) // when nothing else may happen to each of them
	if server {
		faults = planRestarts(random, length, span)
	}
	for _, f := range faults {
		quiet := fault{from: f.from - calmBefore, until: f.until + calmAfter}
		for _, witness := range random.Perm(workers)[:workers/2] {
			calm[witness] = append(calm[witness], quiet)
		}
	}
	for worker := range workers {
		faults = append(faults, planWorker(random, worker, calm[worker], length-settled, span, server)...)
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return cmp.Compare(a.from, b.from) })
	return faults
}

// planRestarts draws when the server is away: every other time longer than a window lasts.
func planRestarts(random *rand.Rand, length, span time.Duration) (faults []fault) {
	begin := calmBefore + between(random, 0, span)
	for long := false; ; long = !long {
		away := between(random, 0, span/2)
		if long {
			away = between(random, span, maxSpans*span)
		}
		if begin+away > length-calmAfter {
			return faults
		}
		faults = append(faults, fault{kind: restart, worker: -1, from: begin, until: begin + away})
		begin += away + calmAfter + between(random, 0, 2*span)
	}
}

// onSystemClock tells whether a worker has the clock of the system, so its clock is never wrong. Its
// generator takes IDs without reading the clock, which it does not do with a clock that was injected. So
// every other worker has it.
func onSystemClock(worker int) bool { return worker%2 == 1 }

// planWorker draws what happens to one worker, outside the times when nothing may. It deals the kinds
// from a deck, so that each of them comes up soon.
func planWorker(
	random *rand.Rand, worker int, calm []fault, length, span time.Duration, server bool,
) (faults []fault) {
	kinds := []kind{kill, pause}
	if !onSystemClock(worker) {
		kinds = append(kinds, step)
	}
	if server {
		kinds = append(kinds, cut, oneWay)
	}
	begin := between(random, 0, span)
	for {
		for _, n := range random.Perm(len(kinds)) {
			f := planOne(random, kinds[n], worker, span)
			for _, c := range calm { // they are sorted
				if c.from < begin+f.until && begin < c.until {
					begin = c.until + between(random, 0, span/4)
				}
			}
			f.from, f.until = begin, begin+f.until
			if f.until > length {
				return faults
			}
			faults = append(faults, f)
			begin = f.until + between(random, span/4, 2*span)
		}
	}
}

// planOne draws a fault that begins at 0.
func planOne(random *rand.Rand, what kind, worker int, span time.Duration) fault {
	f := fault{kind: what, worker: worker, late: random.IntN(2) == 0}
	switch what {
	case kill:
		f.until = between(random, 0, span)
	default:
		f.until = between(random, span/10, maxSpans*span)
	}
	if what == step {
		f.offset = between(random, -maxOffset, maxOffset)
	}
	return f
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
