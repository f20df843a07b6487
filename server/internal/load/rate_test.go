package load_test

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// workers is how many requests are under way at most.
const workers = 16

// A call asks for count IDs and appends those that came. One worker uses it.
type call func(into []int64, count int) ([]int64, error)

// maker makes the call of one worker, on a connection of its own where the protocol has one for each.
type maker func() (call, error)

// figures are the result of a measurement.
type figures struct {
	requests, ids, failed int
	twice                 int // IDs that came before
	first                 error
	median, p99, longest  time.Duration
	took                  time.Duration
	service, client       time.Duration // of CPU
}

// share is what one worker has seen.
type share struct {
	times  []time.Duration
	ids    []int64
	failed int
	first  error
}

// measure sends requests at a fixed rate. The time of a request counts from when it should have been sent,
// so a service that stalls cannot hide it. Every answer is read, and every ID has to be a new one.
func measure(t *testing.T, rate int, d time.Duration, count, pid int, connect maker) figures {
	t.Helper()
	total := int(float64(rate) * d.Seconds())
	calls := make([]call, workers)
	shares := make([]share, workers)
	for i := range calls {
		var err error
		if calls[i], err = connect(); err != nil {
			t.Fatal(err)
		}
		shares[i] = share{
			times: make([]time.Duration, 0, total/workers+1), ids: make([]int64, 0, (total/workers+1)*count),
		}
	}
	// The IDs of the measurement before can be hundreds of megabytes. If they were given back to the system later,
	// that would disturb the clients of this one.
	debug.FreeOSMemory()
	before, own := cpu(t, pid), cpuOfTest(t)
	started := time.Now()
	var working sync.WaitGroup
	for i := range workers {
		working.Go(func() { shares[i].work(calls[i], started, d, rate, i, total, count) })
	}
	working.Wait()
	f := figures{took: time.Since(started), service: cpu(t, pid) - before, client: cpuOfTest(t) - own}
	f.add(shares)
	return f
}

// work sends every request whose place in the order is that of the worker.
func (s *share) work(one call, started time.Time, d time.Duration, rate, worker, total, count int) {
	clock, err := newAlarm()
	if err != nil {
		s.fail(err)
		return
	}
	defer func() { s.first = errors.Join(s.first, clock.close()) }()
	for at := worker; at < total; at += workers {
		due := started.Add(time.Duration(at) * time.Second / time.Duration(rate))
		if err := clock.wait(time.Until(due)); err != nil {
			s.fail(err)
			return
		}
		if time.Since(started) > 2*d {
			return // the rate is beyond what the machine can do, which the table shows
		}
		before := len(s.ids)
		var err error
		s.ids, err = one(s.ids, count)
		s.times = append(s.times, time.Since(due))
		if got := len(s.ids) - before; err == nil && got != count {
			err = fmt.Errorf("%d IDs came in place of %d", got, count)
		}
		if err != nil {
			s.fail(err)
			return // what comes on this connection now cannot be told
		}
	}
}

func (s *share) fail(err error) {
	s.failed++
	s.first = errors.Join(s.first, err)
}

func (f *figures) add(shares []share) {
	var times []time.Duration
	var ids []int64
	for _, s := range shares {
		times, ids = append(times, s.times...), append(ids, s.ids...)
		f.failed += s.failed
		f.first = errors.Join(f.first, s.first)
	}
	f.requests, f.ids = len(times), len(ids)
	slices.Sort(ids)
	f.twice = f.ids - len(slices.Compact(ids))
	if len(times) > 0 {
		slices.Sort(times)
		f.median, f.p99, f.longest = times[len(times)/2], times[len(times)*99/100], times[len(times)-1]
	}
}

// cpuOfTest is the time of the processor that this process, which has the clients, has used.
func cpuOfTest(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

const heading = "\n| protocol | IDs a request | requests/s | IDs/s | median | p99 | longest | CPU a request | " +
	"CPU of its client | failed |\n|---|---|---|---|---|---|---|---|---|---|\n"

// row is a line of the table. If the service is not ours, its CPU is not known.
func (f figures) row(name string, count, pid int) string {
	each := func(d time.Duration) string {
		return fmt.Sprint((d / time.Duration(max(f.requests, 1))).Round(time.Microsecond))
	}
	used := "-"
	if pid != os.Getpid() {
		used = each(f.service)
	}
	seconds := f.took.Seconds()
	return fmt.Sprintf("| %s | %d | %.0f | %.0f | %v | %v | %v | %s | %s | %d |\n", name, count,
		float64(f.requests)/seconds, float64(f.ids)/seconds, f.median.Round(time.Microsecond),
		f.p99.Round(time.Microsecond), f.longest.Round(time.Microsecond), used, each(f.client), f.failed)
}
