package chaos

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// A happening is a fault that has happened, with the times of it.
type happening struct {
	fault
	began, ended time.Time
	back         time.Time // when the server answered again
}

// A runner lets the faults of a plan happen.
type runner struct {
	Config
	tb      testing.TB
	dir     string
	workers []*worker
	all     []*process // of every worker, one after the other
	// counters: the workers take numbers from a counter, and lease nothing.
	counters bool
	// stepwise: the workers can be kept from their store, and have clocks that can be stopped.
	stepwise bool
	// shut: those that are hired are kept from their store.
	shut bool

	mu sync.Mutex
	// happened is guarded by mu.
	happened []happening
	beside   sync.WaitGroup // what takes as long as it takes
	// restarting is held while the server is away. A slow machine needs longer for a start than the plan has
	// between two restarts, and a server that is always killed before it answers never comes back.
	restarting sync.Mutex
}

// A worker is a place for processes, one after the other.
type worker struct {
	process *process
	relay   *servers.Relay // nil if there is no server
	started int
}

// Run starts the workers, disturbs them, ends them, and returns what their journals say.
func Run(tb testing.TB, c Config) Result {
	tb.Helper()
	return play(tb, c, false).judge()
}

// play starts the workers, disturbs them, and ends them.
func play(tb testing.TB, c Config, counters bool) *runner {
	tb.Helper()
	tb.Logf("%s: seed %d, %v, %d processes, %d nodes, span %v",
		c.Store, c.Seed, c.Length, c.Workers, c.Nodes, c.Span)
	r := newRunner(tb, c, counters)
	for i := range r.workers {
		r.hire(i)
	}
	r.await()
	r.disturb(plan(rand.New(rand.NewPCG(c.Seed, 0)), c.Workers, c.Length, c.Span, c.Server != nil))
	r.beside.Wait()
	r.dismiss()
	return r
}

// newRunner makes a runner whose workers have no processes yet.
func newRunner(tb testing.TB, c Config, counters bool) *runner {
	tb.Helper()
	r := &runner{Config: c, tb: tb, dir: tb.TempDir(), counters: counters}
	for range c.Workers {
		w := new(worker)
		if c.Server != nil {
			w.relay = servers.NewRelay(tb, c.Address)
		}
		r.workers = append(r.workers, w)
	}
	return r
}

// await waits until every process has made an ID, so that the faults meet processes at work.
func (r *runner) await() {
	r.tb.Helper()
	for _, p := range r.all {
		r.until(p.Name+" has made no ID", func() bool {
			file, err := os.Stat(p.Journal)
			return err == nil && file.Size() > 0
		})
	}
}

// hire starts the next process of a worker.
func (r *runner) hire(i int) *process {
	r.tb.Helper()
	w := r.workers[i]
	w.started++
	name := fmt.Sprintf("w%d-%d", i, w.started)
	address := r.Address
	if w.relay != nil {
		address = w.relay.Addr()
		if r.At != nil {
			address = r.At(address)
		}
	}
	w.process = start(r.tb, order{
		Name: name, Store: r.Store, Address: address, Journal: filepath.Join(r.dir, name),
		Span: r.Span, Nodes: r.Nodes, Mutant: r.Mutant, Counters: r.counters,
		SystemClock: onSystemClock(i) && !r.stepwise, Gated: r.stepwise, Shut: r.shut,
	})
	r.all = append(r.all, w.process)
	return w.process
}

// disturb lets all faults begin and end at their times.
func (r *runner) disturb(faults []fault) {
	r.tb.Helper()
	type edge struct {
		when time.Duration
		do   func()
	}
	var edges []edge
	zero := time.Now()
	for _, f := range faults {
		if f.kind == restart {
			edges = append(edges, edge{f.from, func() { r.beside.Go(func() { r.restart(f, zero.Add(f.until)) }) }})
			continue
		}
		h := &happening{fault: f}
		begin := func() {
			h.began = time.Now()
			r.begin(f, zero.Add(f.until))
		}
		end := func() {
			r.end(f)
			h.ended = time.Now()
			r.note(*h)
		}
		edges = append(edges, edge{f.from, begin}, edge{f.until, end})
	}
	edges = append(edges, edge{r.Length, func() {}})
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.when, b.when) })
	for _, e := range edges {
		time.Sleep(time.Until(zero.Add(e.when)))
		e.do()
	}
}

func (r *runner) note(h happening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.happened = append(r.happened, h)
}

// begin begins what happens to a worker until some time.
func (r *runner) begin(f fault, until time.Time) {
	w := r.workers[f.worker]
	switch f.kind {
	case kill:
		if err := w.process.kill(); err != nil {
			r.tb.Error(err)
		}
	case pause:
		w.process.signal(syscall.SIGSTOP)
	case step:
		w.process.setClock(f.offset)
	case oneWay:
		w.relay.LoseAnswers()
	case cut:
		w.relay.Split()
		r.beside.Go(func() {
			for ; time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				w.relay.Cut()
			}
		})
	}
}

// end ends what happens to a worker.
func (r *runner) end(f fault) {
	r.tb.Helper()
	w := r.workers[f.worker]
	switch f.kind {
	case kill:
		r.hire(f.worker)
	case pause:
		w.process.signal(syscall.SIGCONT)
	case step:
		w.process.setClock(0)
	case cut, oneWay:
		if f.kind == cut || !f.late {
			w.relay.Cut()
		}
		w.relay.Mend()
	}
}

// restart kills the server, starts it at a time, and waits until it answers. It does nothing while another
// restart lasts.
func (r *runner) restart(f fault, until time.Time) {
	if !r.restarting.TryLock() {
		return
	}
	defer r.restarting.Unlock()
	h := happening{fault: f, began: time.Now()}
	r.Server.Kill()
	time.Sleep(time.Until(until))
	r.Server.Start()
	h.ended = time.Now()
	for err := r.Server.Answers(); err != nil; err = r.Server.Answers() {
		if time.Since(h.ended) > servers.Patience {
			r.tb.Errorf("the server does not answer after its start: %v", err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.back = time.Now()
	r.note(h)
}

// dismiss ends all processes in good order.
func (r *runner) dismiss() {
	r.tb.Helper()
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() {
			if err := w.process.leave(); err != nil {
				r.tb.Error(err)
			}
		})
	}
	all.Wait()
}

// judge reads the journals and compares them.
func (r *runner) judge() Result {
	r.tb.Helper()
	result := Result{Config: r.Config, Processes: len(r.all)}
	journals := r.journals()
	result.Verdict = checker.Check(journals)
	for _, h := range r.happened {
		result.Counts[h.kind]++
		if h.kind == restart {
			result.Gaps = append(result.Gaps, r.gaps(h, journals)...)
		}
	}
	slices.SortFunc(result.Gaps, func(a, b Gap) int { return cmp.Compare(a.Lasted, b.Lasted) })
	return result
}

// journals reads what the processes have written.
func (r *runner) journals() []checker.Journal {
	r.tb.Helper()
	journals := make([]checker.Journal, 0, len(r.all))
	for _, p := range r.all {
		journals = append(journals, r.journal(p))
	}
	return journals
}

// gaps returns the times without IDs after a restart of the server.
func (r *runner) gaps(h happening, journals []checker.Journal) (gaps []Gap) {
	for _, j := range journals {
		var worker int
		if _, err := fmt.Sscanf(j.Name, "w%d-", &worker); err != nil || r.disturbed(worker, h) {
			continue
		}
		fell, back := h.began.UnixMicro(), h.back.UnixMicro()
		if j.Gap(fell-recent.Microseconds(), fell) == recent.Microseconds() {
			continue // it had no IDs even before, or does not live any more
		}
		lasted := time.Duration(j.Gap(back, back+watched.Microseconds())) * time.Microsecond
		gaps = append(gaps, Gap{Process: j.Name, Away: h.back.Sub(h.began), Lasted: lasted})
	}
	return gaps
}

// disturbed tells whether something else happened to a worker around a restart of the server.
func (r *runner) disturbed(worker int, h happening) bool {
	from, until := h.began.Add(-quiet), h.back.Add(watched)
	for _, other := range r.happened {
		ours := other.worker == worker || other.kind == restart && other.began != h.began
		if ours && other.began.Before(until) && other.ended.After(from) {
			return true
		}
	}
	return false
}

// failed is how many claims of all processes were sent and ended with an error.
func (r *runner) failed() (n int64) {
	r.tb.Helper()
	for _, p := range r.all {
		file, err := os.Stat(p.Journal + failedSuffix)
		if err == nil {
			n += file.Size()
		} else if !os.IsNotExist(err) { // it ended before it had a store
			r.tb.Fatal(err)
		}
	}
	return n
}

// judgeCounters reads the journals and compares them, and asks the store how far the counter has come.
func (r *runner) judgeCounters(open CounterOpener) CounterResult {
	tb, c := r.tb, r.Config
	tb.Helper()
	result := CounterResult{
		Config: c, Processes: len(r.all), Verdict: checker.CheckNumbers(r.journals()), Failed: r.failed(),
	}
	for _, h := range r.happened {
		result.Counts[h.kind]++
	}
	address := c.Address
	if c.At != nil {
		address = c.At(address)
	}
	var store segment.Ledger
	servers.Eventually(tb, func() (err error) { // a busy server may refuse a connection
		store, err = open(c.Store, address)
		return err
	})
	counters, err := store.Counters(context.Background(), counterName)
	if err != nil || len(counters) != 1 {
		tb.Fatalf("the store has the counters %v, %v", counters, err)
	}
	result.Claimed = counters[0].Next - 1
	if closer, ok := store.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			tb.Error(err)
		}
	}
	return result
}
