package main

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A measure is one column of the comparison. It visits a peer once a round.
type measure struct {
	name, unit string
	// rounds is how often it visits each peer at most; 0 stands for every round.
	rounds int
	figure func(p peer) (float64, error)
}

// errNone is the result of a measure that a peer has no figure for.
var errNone = errors.New("no figure")

// idle lets buckets refill and clocks pass, so that what was measured before has no influence.
const idle = 15 * time.Millisecond

// perIDUnit is the unit of the measures of speed.
const perIDUnit = "ns/ID"

func measures() []measure {
	return []measure{
		{name: "one goroutine", unit: perIDUnit, figure: perID(1)},
		{name: "all cores", unit: perIDUnit, figure: perID(runtime.GOMAXPROCS(0))},
		{name: "1,000 from idle", unit: perIDUnit, figure: func(p peer) (float64, error) {
			return fromIdle(p, func(s series) error { return s.run(1000) })
		}},
		{name: "1,000,000 from idle", unit: perIDUnit, rounds: 9, figure: opened(million)},
		{name: "batch of 1,000", unit: perIDUnit, figure: batch},
		{name: "allocations", unit: "per ID", rounds: 1, figure: opened(allocations)},
		{name: "CPU of one goroutine that wants more", unit: "cores", figure: opened(processor)},
		{name: "lead after 100 ms", unit: "ms", figure: lead},
		{name: "steps back in order", unit: "of 100,000", rounds: 1, figure: opened(disorder)},
		{name: "repeated after a restart", unit: "of 20,000", rounds: 1, figure: repeated},
	}
}

// opened makes a measure of one that takes a series of the peer.
func opened(measure func(s series) (float64, error)) func(p peer) (float64, error) {
	return func(p peer) (float64, error) {
		s, err := p.open()
		if err != nil {
			return 0, err
		}
		return measure(s)
	}
}

// perID is the time of one ID when many are wanted for 40 ms, from some goroutines on one generator.
func perID(goroutines int) func(p peer) (float64, error) {
	return opened(func(s series) (float64, error) {
		time.Sleep(idle)
		made, failed := make([]int, goroutines), make([]error, goroutines)
		begin := time.Now()
		var group sync.WaitGroup
		for i := range goroutines {
			group.Go(func() { made[i], failed[i] = s.runFor(40 * time.Millisecond) })
		}
		group.Wait()
		took, all := time.Since(begin), 0
		for _, n := range made {
			all += n
		}
		return float64(took.Nanoseconds()) / float64(all), errors.Join(failed...)
	})
}

// bursts is how many bursts one visit makes. A burst takes some tens of microseconds, so a single one tells
// more of what the processor did right then than of the library.
const bursts = 11

// million is the time of an ID when a million are wanted at once after a rest, or as many as can be made in a
// second.
func million(s series) (float64, error) {
	time.Sleep(idle)
	const part = 1000
	made := 0
	begin := time.Now()
	for made < 1_000_000 && time.Since(begin) < time.Second {
		if err := s.run(part); err != nil {
			return 0, err
		}
		made += part
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(made), nil
}

// batch is the time of an ID in a batch of 1,000 after a rest.
func batch(p peer) (float64, error) {
	return fromIdle(p, func(s series) error {
		if s.fill == nil {
			return errNone
		}
		return s.fill(1000)
	})
}

// fromIdle is the time of an ID when 1,000 are made at once after a rest: the median of some bursts, each of
// a new generator.
func fromIdle(p peer, produce func(s series) error) (float64, error) {
	var times []float64
	for range bursts {
		s, err := p.open()
		if err != nil {
			return 0, err
		}
		time.Sleep(idle)
		begin := time.Now()
		if err := produce(s); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(begin).Nanoseconds())/1000)
	}
	return median(times), nil
}

func allocations(s series) (float64, error) {
	if err := s.run(100); err != nil {
		return 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.run(2000)
	runtime.ReadMemStats(&after)
	return math.Round(float64(after.Mallocs-before.Mallocs) / 2000), err
}

// processor is how much of a core one goroutine uses that takes all that there is. A generator that has
// used up its tick may spin or sleep until the next one.
func processor(s series) (float64, error) {
	used := processorTime()
	begin := time.Now()
	_, err := s.runFor(60 * time.Millisecond)
	return float64(processorTime()-used) / float64(time.Since(begin)), err
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// lead is how far the time in the last ID is ahead of the clock after 100 ms at full speed.
func lead(p peer) (float64, error) {
	if p.timeOf == nil {
		return 0, errNone
	}
	return opened(func(s series) (float64, error) {
		if _, err := s.runFor(100 * time.Millisecond); err != nil {
			return 0, err
		}
		last, err := s.next()
		return max(0, float64(time.Until(p.timeOf(last)).Microseconds())/1000), err
	})(p)
}

// disorder counts the IDs that are not greater than the one before.
func disorder(s series) (float64, error) {
	var last key
	back := 0
	err := s.each(100_000, func(id key) {
		if bytes.Compare(id[:], last[:]) <= 0 {
			back++
		}
		last = id
	})
	return float64(back), err
}

// repeated counts the IDs that a second generator with the same number makes again, when it is started
// at once after the first has made 20,000, as a process that restarts after a burst.
func repeated(p peer) (float64, error) {
	if p.shared {
		return 0, errNone
	}
	seen := map[key]bool{}
	twice := 0
	for range 2 {
		s, err := p.open()
		if err != nil {
			return 0, err
		}
		if err := s.each(20_000, func(id key) {
			if seen[id] {
				twice++
			}
			seen[id] = true
		}); err != nil {
			return 0, err
		}
	}
	return float64(twice), nil
}

// evenness is the share of the fullest of n shards, by the low bits, against an even share, when IDs are
// made one at a time. All peers are measured at once, because they only sleep.
func evenness(all []peer, shards []int, ids int) (map[string][]float64, error) {
	result, failed := make([][]float64, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() { result[i], failed[i] = evennessOf(p, shards, ids) })
	}
	group.Wait()
	named := map[string][]float64{}
	for i, p := range all {
		named[p.name] = result[i]
	}
	return named, errors.Join(failed...)
}

func evennessOf(p peer, shards []int, ids int) ([]float64, error) {
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	counts := make([][]int, len(shards))
	for i, n := range shards {
		counts[i] = make([]int, n)
	}
	for range ids {
		time.Sleep(2 * time.Millisecond)
		id, err := s.next()
		if err != nil {
			return nil, err
		}
		for i, n := range shards {
			counts[i][id.low()%uint64(n)]++ //nolint:gosec // it is a small positive number
		}
	}
	fullest := make([]float64, len(shards))
	for i, n := range shards {
		fullest[i] = float64(slices.Max(counts[i])) * float64(n) / float64(ids)
	}
	return fullest, nil
}
